/* Where a child is in its PHP code: trace.c. */
#ifndef REPRISE_TRACE_H
#define REPRISE_TRACE_H

#include <sys/types.h>

struct forker;

/* Tells the supervisor where a child is in its PHP code. */
void reprise_forker_trace(struct forker *forker, pid_t pid);

#endif
