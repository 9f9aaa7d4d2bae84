/* Where a worker is in its PHP code. */
#ifndef REPRISE_TRACE_H
#define REPRISE_TRACE_H

#include <sys/types.h>

struct forker;

/* Sends the call frames of a child to the supervisor. */
void process_forker_trace(struct forker *forker, pid_t pid);

#endif
