/* A request gets into PHP's globals. On PHP's stack. */
#ifndef REPRISE_SERVE_H
#define REPRISE_SERVE_H

#include <stdbool.h>
#include <stddef.h>

void snapshot_serve_prepare(void);
void snapshot_boot_output(const char *bytes, size_t size);

#endif
