/* PHP's modules between two requests of a worker script. */
#ifndef REPRISE_MODULES_H
#define REPRISE_MODULES_H

void reprise_modules_start(void);
void reprise_modules_stop(void);

#endif
