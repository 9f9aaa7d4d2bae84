/* Settings and environment that the boot of a worker script has set. */
#ifndef REPRISE_BOOT_STATE_H
#define REPRISE_BOOT_STATE_H

#include <stdbool.h>

/* Noted once, when the loop begins; restored after each request. */
void engine_boot_note_ini(void);
void engine_boot_note_environment(void);
void engine_boot_restore_ini(void);
bool engine_boot_is_lost(void); /* a request has changed a setting that does not come back */
void engine_boot_restore_environment(void);

#endif
