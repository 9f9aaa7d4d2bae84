/* The state of a process that forks workers. */
#ifndef REPRISE_FORKER_STATE_H
#define REPRISE_FORKER_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "state.h"
#include "ipc.h"

/* Bytes of a packet: frames that do not fit are left out. */
#define PROFILE_PACKET 16384

/* Part of a forker. */
struct profile {
	int socket; /* 0: there is none under way */
	uint32_t lane;
	uint64_t interval; /* nanoseconds */
	uint64_t until;
	uint64_t last; /* when the last look was */
	uint64_t next;
	uint64_t looks; /* so many times */
	uint64_t spent; /* nanoseconds that they took */
	uint64_t lost;  /* packets that the reader was too slow for */
	/* Of the last looks at workers that had requests: how many, and what they took. */
	uint64_t recent_looks;
	uint64_t recent_spent;
	size_t size;
	char bytes[PROFILE_PACKET];
};

/* Templates a prototype may have: those of its lanes, and some on their way out. */
#define MAX_TEMPLATES 32
_Static_assert(MAX_TEMPLATES >= 2 * ipc_MAX_LANES, "each lane may have an old and a new template");

struct forker;

/* What differs between prototype and template. Both fork and return the child's pid in the parent, a negative errno on
 * failure; in the child they do not return. */
struct forker_methods {
	long (*fork_worker)(struct forker *, uint32_t slot);
	/* NULL in a template. Owns the two descriptors. */
	long (*fork_template)(struct forker *, enum ipc_Isolation isolation, int control, int head);
	/* NULL in a template. Owns the two descriptors. */
	void (*answer)(struct forker *, int question, int answer);
	/* What the supervisor is to know; before each Pong. */
	void (*tell)(struct forker *);
	/* NULL in the prototype. The lowest place that is free has changed, and no worker is about to be forked for it. */
	void (*place_is_free)(uint32_t place);
};

struct forker_child {
	pid_t pid; /* 0: free */
	bool is_template;
	uint32_t lane;    /* of a template */
	uint32_t slot;    /* of a worker */
	uint64_t epoch;   /* of the slab that the slot is in */
	uint32_t place;   /* of a worker: no other that lives has it */
	uint64_t fork_ns; /* of a worker: its forker's processor time for it */
};

struct forker {
	const struct forker_methods *methods;
	int control;  /* socket to the supervisor */
	int lifeline; /* read end of a pipe; hang-up means that the supervisor is gone */
	int signals;  /* signalfd for SIGCHLD */
	int watcher;  /* pipe of the watcher; -1: there is none */
	int slab;     /* -1 until the supervisor has sent one */
	struct ipc_Geometry geometry;
	uint64_t epoch;
	int eventfds[ipc_MAX_DOORS];
	bool draining;
	struct profile profile;
	uint32_t alive;
	uint32_t
	    place; /* of the next worker: the lowest that is free. A slot may still be in use when its worker has ended. */
	/* In no order. Workers of an earlier epoch may still run when their slots have new workers. */
	struct forker_child children[2 * ipc_MAX_SLOTS + MAX_TEMPLATES];
};

#endif
