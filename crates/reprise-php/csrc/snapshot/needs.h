/* What a rewind needs of the kernel. */
#ifndef REPRISE_NEEDS_H
#define REPRISE_NEEDS_H

#include <stdbool.h>
#include <stddef.h>

/* The text of what was tried: a word and an errno for each, 0 if it works. */
#define REPRISE_NEEDS 128
/* In place of it: the process that tried was killed. */
#define REPRISE_NEEDS_KILLED "killed"

/* Whether everything is there that a rewind needs. */
bool snapshot_try_needs(char *text, size_t size);

#endif
