/* A worker ends, and a fresh one takes its place. */
#ifndef REPRISE_RECYCLE_H
#define REPRISE_RECYCLE_H

#include <stdint.h>

#include "ipc.h"

/* What else is done before it ends; once, before there are workers. */
void reprise_recycle_begins_by(void (*what)(void));
/* Says which call of a request has changed what cannot be put back: sets snapshot->notes.culprit. */
void reprise_blame(const char *what, uintptr_t address);
_Noreturn void reprise_recycle(enum ipc_Recycle why, const char *detail);

#endif
