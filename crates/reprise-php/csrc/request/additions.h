/* What a boot has added to $_SERVER and $_ENV. */
#ifndef REPRISE_ADDITIONS_H
#define REPRISE_ADDITIONS_H

#include <stdbool.h>

void request_note_additions(void);
void request_fill_superglobals(bool all); /* all: whether or not the boot had them */

#endif
