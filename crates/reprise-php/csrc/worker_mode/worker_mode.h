/*
 * Worker scripts: what the files of this directory share.
 *
 * worker_mode.c  the function, and the processes of a worker script's lane
 * cycle.c        a request begins and ends in a living process
 * modules.c      which of PHP's modules see that
 * boot_state.c   settings and environment of the boot come back
 *
 * What is private in PHP, handlers and what functions remember, is in ../engine.
 */
#ifndef REPRISE_WORKER_MODE_H
#define REPRISE_WORKER_MODE_H

#include "../snapshot/snapshot.h"

/* cycle.c */
void reprise_loop_begin_request(void);
void reprise_loop_end_request(void);
void reprise_loop_end_broken_request(void); /* after a fatal error; the script has ended */
void reprise_loop_settle_exception(void);   /* of the callable */
void reprise_loop_forget_input(void);

/* modules.c */
void reprise_loop_start_modules(void);
void reprise_loop_stop_modules(void);

/* boot_state.c: note once, when the loop begins; restore after each request */
void reprise_loop_note_ini(void);
void reprise_loop_note_environment(void);
void reprise_loop_restore_ini(void);
bool reprise_loop_is_worn(void); /* something a request has changed does not come back */
void reprise_loop_restore_environment(void);

#endif
