/* Takes the snapshot. On the service stack. */
#ifndef REPRISE_TAKE_H
#define REPRISE_TAKE_H

#include <stdbool.h>

#include "ipc.h"

/* False: `why` has the reason. */
bool snapshot_take(const char **why);
void snapshot_grow_stack(void);

#endif
