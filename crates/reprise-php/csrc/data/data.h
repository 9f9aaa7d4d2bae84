/*
 * The data cache: PHP values that all workers of an application share (crates/data-cache is the memory).
 *
 * data.c     the segment in this process: attached by the prototype; begins with a process, ends with a request
 * values.c   from PHP's values to those of the segment, and back
 * compute.c  reprise_cache(): one worker computes, others wait or get what is stale
 * entries.c  values by their keys
 * whole.c    values by their tags, all values, and what is counted
 * locks.c    locks by name
 * memo.c     results of pure functions
 * kept.c     strings in the store of all nodes alone
 * cluster.c  values that other nodes have, and what is told to them; talk.c: conversations with the process that knows
 *            them (crates/store)
 * ask.c      what people ask, and what is counted, in the prototype; show.c: values for people
 * waits.c    what a request waits for, read by its forker
 *
 * Who gets a value shares it until the request has ended, if that is sure to be noticed: in classic mode and after a
 * snapshot. A boot and a worker script keep values longer than that, and get copies.
 */
#ifndef REPRISE_DATA_H
#define REPRISE_DATA_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "data_cache.h"
#include "../core/state.h"
#include "../core/fork_hooks.h"
#include "../core/data_state.h"

/* In the prototype. Without a segment, or if it cannot be used, all functions behave as if nothing were ever stored. */
void data_attach(void);

/* In a new process of ours, on any stack. `stays`: it runs more than one request, so whole chunks are made present at
 * once. */
void data_begin(enum data_use use, bool stays);

/* No code of the request runs any more: its locks are free before its client has the whole response. */
void data_release(void);

/* The request has ended and left nothing in memory. On any stack. */
void data_end_request(void);

/* The process ends, and has ended its request. */
void data_leave(void);

/* A child was reaped; 0: any process may have died. On any stack. */
void data_reaped(pid_t pid);

/* Around the fork of a child by PHP code. A build with AddressSanitizer does not see the call itself, and uses
 * handlers. */
void data_fork_begins(void);
void data_fork_ended(void); /* in the child */

extern const struct fork_hooks data_fork_hooks;

#endif
