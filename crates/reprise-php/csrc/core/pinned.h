/* pinned.c */
#ifndef REPRISE_PINNED_H
#define REPRISE_PINNED_H

#include <stdbool.h>

/* From here on the phar's path leads to the copy that this descriptor has. */
void reprise_pin_phar(int descriptor);
/* The path to open in the place of another. */
const char *reprise_pinned(const char *path, int flags);
/* The path to look at in the place of another. */
const char *reprise_pinned_stat(const char *path);
/* Whether a script is the phar's stub or in the phar: the front has found it there, and no system call can. */
bool reprise_is_pinned_script(const char *script);
/* The file that a script is in: itself, or the phar. */
const char *reprise_script_on_disk(const char *script);

#endif
