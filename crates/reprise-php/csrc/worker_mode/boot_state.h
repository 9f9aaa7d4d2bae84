/* Settings and environment of the boot: boot_state.c. */
#ifndef REPRISE_BOOT_STATE_H
#define REPRISE_BOOT_STATE_H

#include <stdbool.h>

/* Noted once, when the loop begins; restored after each request. */
void reprise_worker_mode_note_ini(void);
void reprise_worker_mode_note_environment(void);
void reprise_worker_mode_restore_ini(void);
bool reprise_worker_mode_is_worn(void); /* something a request has changed does not come back */
void reprise_worker_mode_restore_environment(void);

#endif
