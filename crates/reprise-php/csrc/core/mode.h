/* Whether this process runs a worker script. */
#ifndef REPRISE_MODE_H
#define REPRISE_MODE_H

#include <stdbool.h>

void reprise_run_worker_mode(void); /* it does from here on */
void reprise_loop_begins(void);     /* the script has come to its loop */
bool reprise_is_worker_mode(void);
bool reprise_worker_mode_has_begun(void);

#endif
