/* Write protection by a userfaultfd. On the service stack. */
#ifndef REPRISE_USERFAULT_H
#define REPRISE_USERFAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "../core/snapshot_state.h"

long snapshot_new_userfaultfd(void);              /* a descriptor, or a negative errno */
long snapshot_set_up_userfaultfd(int descriptor); /* a negative errno: no asynchronous write protection */
bool snapshot_is_userfaultfd(int descriptor);

struct faults snapshot_faults(void);
bool snapshot_register(uintptr_t start, uintptr_t end);
bool snapshot_protect(uintptr_t start, uintptr_t end);
bool snapshot_unprotect(uintptr_t start, uintptr_t end);
void snapshot_protect_or_recycle(uintptr_t start, uintptr_t end);
void snapshot_remove_guards(void);

#endif
