/* A template: boots a script, then forks clones. */
#ifndef REPRISE_TEMPLATE_H
#define REPRISE_TEMPLATE_H

#include <stdbool.h>

#include "ipc.h"

struct forker;

_Noreturn void snapshot_template_run(struct forker *forker,
                                     enum ipc_Isolation isolation); /* in a process for a script's lane */
void snapshot_template_loop(void);

#endif
