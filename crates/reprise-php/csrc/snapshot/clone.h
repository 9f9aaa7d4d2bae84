/* A clone: a worker of a template. */
#ifndef REPRISE_CLONE_H
#define REPRISE_CLONE_H

#include <stdbool.h>
#include <stdint.h>

#include "wire.h"

struct forker;

long reprise_clone_fork(struct forker *forker, uint32_t slot);
bool reprise_clone_try(void);       /* in the template; false: no clone can start, and the log has the reason */
long reprise_new_userfaultfd(void); /* a descriptor, or a negative errno */
long reprise_set_up_userfaultfd(int descriptor); /* a negative errno: no asynchronous write protection */
bool reprise_is_userfaultfd(int descriptor);
void reprise_blame(const char *what, uintptr_t address); /* sets snapshot->culprit */
_Noreturn void reprise_recycle(enum wire_Recycle why, const char *detail);

#endif
