/* PHP's modules between two requests: modules.c. */
#ifndef REPRISE_MODULES_H
#define REPRISE_MODULES_H

void reprise_loop_start_modules(void);
void reprise_loop_stop_modules(void);

#endif
