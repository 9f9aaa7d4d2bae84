/*
 * A process that forks workers for a lane: the prototype, and each template. It does what the supervisor says on its
 * control socket (messages of wire's control/with_forker.rs, one per packet), reaps its children and reports them.
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
#include "wire.h"

/* Templates a prototype may have: those of its lanes, and some on their way out. */
#define MAX_TEMPLATES 32
_Static_assert(MAX_TEMPLATES >= 2 * wire_MAX_LANES, "each lane may have an old and a new template");

struct forker;

/* What differs between prototype and template. Both fork and return the child's pid in the parent, a negative errno on
 * failure; in the child they do not return. */
struct forker_methods {
	long (*fork_worker)(struct forker *, uint32_t slot);
	/* NULL in a template. Owns the two descriptors. */
	long (*fork_template)(struct forker *, enum wire_Isolation isolation, int control, int head);
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
	uint32_t lane;  /* of a template */
	uint32_t slot;  /* of a worker */
	uint64_t epoch; /* of the slab that the slot is in */
	uint32_t place; /* of a worker: no other that lives has it */
};

struct forker {
	const struct forker_methods *methods;
	int control;  /* socket to the supervisor */
	int lifeline; /* read end of a pipe; hang-up means that the supervisor is gone */
	int signals;  /* signalfd for SIGCHLD */
	int watcher;  /* pipe of the watcher; -1: there is none */
	int slab;     /* -1 until the supervisor has sent one */
	struct wire_Geometry geometry;
	uint64_t epoch;
	int eventfds[wire_MAX_DOORS];
	bool draining;
	struct profile profile;
	uint32_t alive;
	uint32_t
	    place; /* of the next worker: the lowest that is free. A slot may still be in use when its worker has ended. */
	/* In no order. Workers of an earlier epoch may still run when their slots have new workers. */
	struct forker_child children[2 * wire_MAX_SLOTS + MAX_TEMPLATES];
};

extern struct forker *reprise_forker; /* this process' own */

/* Moves a descriptor above wire_SERVICE_DESCRIPTOR, close-on-exec. Keeps it where it is if the limit does not allow
 * that. */
int reprise_lift(int descriptor);

/* Blocks SIGCHLD and watches it. 0 or a negative errno. */
int reprise_forker_start(struct forker *forker);

/* Sends a message to the supervisor. */
void reprise_forker_tell(struct forker *forker, const struct wire_FromForker *what);

/* The same with a descriptor attached. */
void reprise_forker_tell_with(struct forker *forker, const struct wire_FromForker *what, int attached);

/* Runs until drained; returns an exit code. */
int reprise_forker_run(struct forker *forker);

/* Whether the process is a child of the forker. */
bool reprise_forker_has(struct forker *forker, pid_t pid);

/* In a new child: closes the descriptors of the parent. */
void reprise_forker_leave(struct forker *forker);

#endif
