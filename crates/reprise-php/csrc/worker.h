/* What a worker is, in every mode. */
#ifndef REPRISE_WORKER_H
#define REPRISE_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire.h"

/* Where a request is, for what may be done in a callback. */
enum reprise_stage { REPRISE_STARTING, REPRISE_RUNNING, REPRISE_ENDING };

/* What a worker is. All zero in the prototype. In service memory, which no rewind touches. */
struct worker_state {
	struct wire_worker_state wire;
	uint32_t slot;
	pid_t pid;
	uint64_t requests;
	bool is_worker;   /* false in the prototype, in templates and in children that PHP code forks */
	bool is_template; /* a template that boots */
	bool responding;  /* the exchange is ours: claimed, response not completed */
	bool head_sent;   /* the answer's head is in the ring */
	bool body_broken; /* the client left before it had sent all of its body */
	enum reprise_stage stage;
	uint64_t processor_ns; /* of this process when the request began; only if we measure */
	size_t peak;           /* memory PHP had, once it is about to forget that; else 0 */
	/* The request head, copied: it must outlive fastcgi_finish_request(). */
	_Alignas(16) unsigned char head[wire_HEAD_SIZE];
};

extern struct worker_state *reprise_worker;

void reprise_worker_attach(int slab, const struct wire_Geometry *geometry, uint32_t slot, const int *eventfds);
void reprise_worker_offers_memory(void); /* on any stack: where memory runs out, it is lost before what serves others */
bool reprise_await_request(void); /* queued for this lane's workers; false: there will be none, the worker is to end */
void reprise_in_forked_child(void);

#endif
