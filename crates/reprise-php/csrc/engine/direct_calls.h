/* The calls of libphp's own functions within libphp (crates/direct-calls says how and why). */
#ifndef REPRISE_DIRECT_CALLS_H
#define REPRISE_DIRECT_CALLS_H

/* Binds them directly, before PHP's modules start. Where that is not allowed they stay as they are, and the log says
 * so. */
void reprise_bind_libphp(void);

#endif
