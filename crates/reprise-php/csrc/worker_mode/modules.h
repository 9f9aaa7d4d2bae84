/* PHP's modules between two requests: modules.c. */
#ifndef REPRISE_MODULES_H
#define REPRISE_MODULES_H

void reprise_worker_mode_start_modules(void);
void reprise_worker_mode_stop_modules(void);

#endif
