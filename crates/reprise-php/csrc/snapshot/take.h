/* Taking the snapshot, on the service stack: take.c. */
#ifndef REPRISE_TAKE_H
#define REPRISE_TAKE_H

#include <stdbool.h>

#include "wire.h"

/* Writes why to `why` if it fails. */
bool reprise_take(const char **why);
enum wire_Isolation reprise_choose_isolation(const char **why);
void reprise_grow_stack(void);

#endif
