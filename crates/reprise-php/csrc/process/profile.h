/* Where the workers that have requests are in their PHP code, over and over: `reprise profile`. */
#ifndef REPRISE_PROFILE_H
#define REPRISE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "ipc.h"
#include "../core/forker_state.h"

struct forker;

/* Takes the descriptor. One that is under way ends. */
void process_profile_begin(struct forker *forker, const struct ipc_ToForker *what, int socket);

/* How long to wait for the next look. False: none is wanted. */
bool process_profile_wait(const struct forker *forker, struct timespec *wait);

/* Looks at the workers, if it is time. */
void process_profile_turn(struct forker *forker);

#endif
