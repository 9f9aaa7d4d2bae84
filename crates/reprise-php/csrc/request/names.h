/* Settings that the configuration names and PHP does not have, and PHP's extensions. */
#ifndef REPRISE_NAMES_H
#define REPRISE_NAMES_H

#include <stdbool.h>
#include <stddef.h>

const char *request_nearest_setting(const char *name, size_t size); /* or NULL */
bool request_has_setting(const char *name, size_t size);
void request_print_settings(bool with_symbols);
void request_report_unknown_settings(void);

#endif
