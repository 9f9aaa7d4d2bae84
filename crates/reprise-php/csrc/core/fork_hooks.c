/* What is done where PHP or a library forks a child: dirty_process.c calls it. */
#include <stddef.h>

#include "fork_hooks.h"

const struct fork_hooks *reprise_fork_hooks;
