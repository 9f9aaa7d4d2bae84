/* The state of the data cache in a process. */
#ifndef REPRISE_DATA_STATE_H
#define REPRISE_DATA_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "data_cache.h"
#include "state.h"

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
	struct data_cache_process_state process;
	bool is_attached;
	struct timespec began; /* when the prototype attached it, by the clock of files: it loads all code after that */
	int door;              /* to the process that talks to other nodes; 0: there is none */
	enum data_use use;
	struct data_wait wait;
	struct data_talk talks[DATA_MOST_TALKS];
	bool (*finish_response)(void); /* completes the response of the request that runs; set by request/sapi.c */
};

#endif
