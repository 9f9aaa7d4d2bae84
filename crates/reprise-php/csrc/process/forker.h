/*
 * A process that forks workers for a lane: the prototype, and each template. It does what the supervisor says on its
 * control socket (messages of ipc's control/with_forker.rs, one per packet), reaps its children and reports them.
 *
 * In a template this runs on the service stack, with its state in service memory, so nothing here calls libc. The
 * prototype uses the same code.
 */
#ifndef REPRISE_FORKER_H
#define REPRISE_FORKER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "profile.h"
#include "ipc.h"
#include "../core/state.h"
#include "../core/forker_state.h"

/* Blocks SIGCHLD and watches it. 0 or a negative errno. */
int process_forker_start(struct forker *forker);

/* Runs until drained; returns an exit code. */
int process_forker_run(struct forker *forker);

/* Whether the process is a child of the forker. */
bool process_forker_has(struct forker *forker, pid_t pid);

#endif
