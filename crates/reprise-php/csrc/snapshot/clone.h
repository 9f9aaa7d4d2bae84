/* A clone: a worker of a template. */
#ifndef REPRISE_CLONE_H
#define REPRISE_CLONE_H

#include <stdbool.h>
#include <stdint.h>

#include "ipc.h"

struct forker;

long snapshot_clone_fork(struct forker *forker, uint32_t slot);
bool snapshot_clone_try(void); /* in the template; false: no clone can start, and the log has the reason */

#endif
