/* Puts memory back to the image. On the service stack. */
#ifndef REPRISE_REWIND_H
#define REPRISE_REWIND_H

#include <stdbool.h>
#include <stdint.h>

#include "snapshot.h"

struct faults reprise_faults(void);
bool reprise_protect(uintptr_t start, uintptr_t end);
bool reprise_register(uintptr_t start, uintptr_t end);
void reprise_remove_guards(void);
void reprise_pin(uintptr_t start, uintptr_t end); /* these pages are always copied, and never protected */
void reprise_copy_region(const struct region *region, uintptr_t from, uintptr_t to);
void reprise_rewind(void);

#endif
