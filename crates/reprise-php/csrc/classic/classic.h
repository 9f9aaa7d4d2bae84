/* Classic mode: PHP starts anew for each request. */
#ifndef REPRISE_CLASSIC_H
#define REPRISE_CLASSIC_H

#include <stdint.h>

#include "wire.h"

_Noreturn void classic_run(int slab, const struct wire_Geometry *geometry, uint32_t slot, const int *eventfds);

#endif
