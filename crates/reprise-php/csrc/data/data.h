/*
 * The data cache: PHP values that all workers of an application share (crates/segment is the memory).
 *
 * data.c     the segment in this process: attached by the prototype; begins with a process, ends with a request
 * values.c   from PHP's values to those of the segment, and back
 * compute.c  reprise_cache(): one worker computes, others wait or get what is stale
 * entries.c  values by their keys
 * whole.c    values by their tags, all values, and what is counted
 * locks.c    locks by name
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

#include "segment.h"

/* How values get to PHP code in this process. */
enum data_use {
	DATA_COPIES, /* each as a copy */
	DATA_KEEPS,  /* a worker script: one copy a version, which stays */
	DATA_SHARES  /* as they are; the request's end is told */
};

/* A value that another process computes. Its forker reads this while the worker waits. */
struct data_wait {
	const char *key; /* NULL: it waits for none */
	size_t size;
	uint32_t owner; /* process id; 0: another node computes it */
};

/* Conversations of a request that stay open: computations for other nodes, within each other, and locks. */
#define DATA_MOST_TALKS 32

struct data_talk {
	int file;      /* plus one; 0: free */
	uint64_t name; /* of a lock: its hash; else 0 */
};

/* In service memory: no rewind touches it. */
struct data_state {
	struct segment_process_state process;
	bool is_attached;
	int door; /* to the process that talks to other nodes; 0: there is none */
	enum data_use use;
	struct data_wait wait;
	struct data_talk talks[DATA_MOST_TALKS];
};

extern struct data_state *reprise_data;

/* In the prototype. Without a segment, or if it cannot be used, all functions behave as if nothing were ever stored. */
void reprise_data_attach(void);

/* In a new process of ours, on any stack. `stays`: it runs more than one request, so whole chunks are made present at
 * once. */
void reprise_data_begin(enum data_use use, bool stays);

/* No code of the request runs any more: its locks are free before its client has the whole response. */
void reprise_data_release(void);

/* The request has ended and left nothing in memory. On any stack. */
void reprise_data_end_request(void);

/* The process ends, and has ended its request. */
void reprise_data_leave(void);

/* A child was reaped; 0: any process may have died. On any stack. */
void reprise_data_reaped(pid_t pid);

/* Around the fork of a child by PHP code. A build with AddressSanitizer does not see the call itself, and uses
 * handlers. */
void reprise_data_fork_begins(void);
void reprise_data_fork_ended(void); /* in the child */
uint32_t reprise_data_before_fork(void);
void reprise_data_after_fork(uint32_t place, pid_t child);
void reprise_data_in_child(uint32_t place);

/* Milliseconds of a clock that never goes back. */
uint64_t reprise_data_now(void);

#endif
