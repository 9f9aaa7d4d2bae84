/* What code of the application still holds of the boot's request. */
#ifndef REPRISE_CAPTURED_H
#define REPRISE_CAPTURED_H

#include <stdbool.h>

/* Writes a line to the log if there is anything. `is_per_host`: all requests to come have the boot's host, scheme and
 * port. `below`: where to read $_SERVER instead. */
void engine_report_captured(bool is_per_host, const char *below);

#endif
