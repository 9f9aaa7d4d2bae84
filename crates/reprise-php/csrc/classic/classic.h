/* Classic mode: PHP starts anew for each request. */
#ifndef REPRISE_CLASSIC_H
#define REPRISE_CLASSIC_H

#include <stdint.h>

#include "ipc.h"

_Noreturn void classic_run(int slab, const struct ipc_Geometry *geometry, uint32_t slot, const int *eventfds);

#endif
