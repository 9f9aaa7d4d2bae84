/* A clone: a worker of a template. */
#ifndef REPRISE_CLONE_H
#define REPRISE_CLONE_H

#include <stdbool.h>
#include <stdint.h>

#include "wire.h"

struct forker;

long reprise_clone_fork(struct forker *forker, uint32_t slot);
bool reprise_clone_try(void); /* in the template; false: no clone can start, and the log has the reason */
int reprise_open_userfaultfd(void);
bool reprise_is_userfaultfd(int descriptor);
void reprise_blame(const char *what, uintptr_t address); /* sets snapshot->culprit */
_Noreturn void reprise_recycle(enum wire_Recycle why, const char *detail);

#endif
