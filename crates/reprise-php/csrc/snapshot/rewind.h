/* Puts memory back to the image. On the service stack. */
#ifndef REPRISE_REWIND_H
#define REPRISE_REWIND_H

#include <stdbool.h>
#include <stdint.h>

#include "../core/snapshot_state.h"

void snapshot_rewind(void);

#endif
