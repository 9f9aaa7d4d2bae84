/*
 * Worker scripts: what the files of this directory share.
 *
 * worker_mode.c  the function, and the processes of a worker script's lane
 * cycle.c        a request begins and ends in a living process
 * modules.c      which of PHP's modules see that
 * boot_state.c   settings, environment and session handlers of the boot come back
 *
 * ../engine/exits.c           whether a request has called exit()
 * ../engine/function_state.c  what PHP's functions remember
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

/* engine/exits.c */
void reprise_loop_forget_exit(void); /* a request begins */
void reprise_loop_note_exit(void);
bool reprise_loop_has_exited(void);

/* modules.c */
void reprise_loop_start_modules(void);
void reprise_loop_stop_modules(void);

/* engine/function_state.c: likewise */
void reprise_loop_note_functions(void);
void reprise_loop_forget_functions(void);
void reprise_loop_enter_directory(const char *script);

/* boot_state.c: note once, when the loop begins; restore after each request */
void reprise_loop_note_ini(void);
void reprise_loop_note_environment(void);
void reprise_loop_note_handlers(void);
void reprise_loop_note_session_handlers(void);
void reprise_loop_restore_ini(void);
bool reprise_loop_is_worn(void); /* something a request has changed does not come back */
void reprise_loop_restore_environment(void);
void reprise_loop_restore_handlers(void);
void reprise_loop_restore_session_handlers(void);

#endif
