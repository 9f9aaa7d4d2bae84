/* Puts memory back to the image. On the service stack. */
#ifndef REPRISE_REWIND_H
#define REPRISE_REWIND_H

#include <stdbool.h>
#include <stdint.h>

#include "snapshot.h"

struct faults reprise_faults(void);
bool reprise_protect(uintptr_t start, uintptr_t end);
bool reprise_unprotect(uintptr_t start, uintptr_t end);
void reprise_protect_or_recycle(uintptr_t start, uintptr_t end);
bool reprise_register(uintptr_t start, uintptr_t end);
void reprise_remove_guards(void);
void reprise_rewind(void);

#endif
