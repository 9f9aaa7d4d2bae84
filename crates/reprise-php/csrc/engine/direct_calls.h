/* The calls of libphp's own functions within libphp (crates/direct-calls says how and why). */
#ifndef REPRISE_DIRECT_CALLS_H
#define REPRISE_DIRECT_CALLS_H

#include <stdint.h>

/* Binds them directly, before PHP's modules start. Where that is not allowed they stay as they are, and the log says
 * so. */
void engine_bind_libphp(void);

/* KiB of libphp's code that are no longer its file's for that reason: private memory by what /proc/self/statm says, and
 * yet all workers share it. */
uint64_t engine_bound_kib(void);

#endif
