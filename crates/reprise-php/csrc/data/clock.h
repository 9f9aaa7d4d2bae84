/* The clock of the data cache. */
#ifndef REPRISE_CLOCK_H
#define REPRISE_CLOCK_H

#include <stdint.h>

/* Milliseconds of a clock that never goes back. */
uint64_t data_now(void);

#endif
