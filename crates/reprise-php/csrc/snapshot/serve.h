/* A request gets into PHP's globals. On PHP's stack. */
#ifndef REPRISE_SERVE_H
#define REPRISE_SERVE_H

#include <stdbool.h>
#include <stddef.h>

void reprise_serve_prepare(void);
void reprise_boot_output(const char *bytes, size_t size);
void reprise_note_additions(void);
void reprise_fill_superglobals(bool all); /* all: whether or not the boot had them */

#endif
