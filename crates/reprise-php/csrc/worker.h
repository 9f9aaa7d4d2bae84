/* The state of a worker, in every mode. */
#ifndef REPRISE_WORKER_H
#define REPRISE_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire.h"

/* How far a request has come: callbacks depend on it. */
enum reprise_stage { REPRISE_STARTING, REPRISE_RUNNING, REPRISE_ENDING };

/* All zero in the prototype. It lies in service memory, which no rewind touches. */
struct worker_state {
	struct wire_worker_state wire;
	uint32_t slot;
	uint32_t place; /* of a clone, see struct forker */
	pid_t pid;
	uint64_t requests;
	bool is_worker;           /* false in the prototype, in templates and in children that PHP code forks */
	bool is_template;         /* a template that boots */
	bool responding;          /* this worker has claimed an exchange, and has not completed its response */
	bool head_sent;           /* the head of the response is in the ring */
	bool connected;           /* to some server, since the request began */
	bool body_broken;         /* the client left before it had sent all of its body */
	bool filter_waits;        /* ext/filter has no copy of the request's variables yet */
	bool has_uploads;         /* it may have a row of uploads.c */
	uint32_t directory_calls; /* calls that change the working directory, so far */
	enum reprise_stage stage;
	uint64_t processor_ns; /* of this process when the request began; only if we measure */
	size_t peak;           /* most memory of PHP; 0 until PHP is about to reset its own count */
	/* A copy of the request head: PHP reads it after fastcgi_finish_request(), too. */
	_Alignas(16) unsigned char head[wire_HEAD_SIZE];
};

extern struct worker_state *reprise_worker;

void reprise_worker_attach(int slab, const struct wire_Geometry *geometry, uint32_t slot, const int *eventfds);
/* On any stack. When the system runs out of memory, the kernel ends this worker before the processes that serve others.
 */
void reprise_worker_offers_memory(void);
/* Waits until a request is queued for the lane. False: no request will come, and the worker is to end. */
bool reprise_await_request(void);
/* In a process that may fork children by PHP code. 0, or an errno. */
int reprise_watch_forks(void);
void reprise_in_forked_child(void);
/* Marks this process: it is a worker, and a child that it forks is none. */
void reprise_mark_process(void);
bool reprise_is_marked_process(void);
/* Whether dirty*.c sees calls at all. */
bool reprise_sees_calls(void);

#endif
