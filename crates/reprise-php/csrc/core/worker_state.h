/* The state of a worker, in every mode. */
#ifndef REPRISE_WORKER_STATE_H
#define REPRISE_WORKER_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "state.h"
#include "ipc.h"

/* How far a request has come: callbacks depend on it. */
enum reprise_stage { REPRISE_STARTING, REPRISE_RUNNING, REPRISE_ENDING };

/* All zero in the prototype. It lies in service memory, which no rewind touches. */
struct worker_state {
	struct ipc_worker_state ipc;
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
	bool was_called;          /* reprise_handle_request(), by this request in another mode than worker mode */
	uint32_t directory_calls; /* calls that change the working directory, so far */
	enum reprise_stage stage;
	uint64_t processor_ns; /* of this process when the request began; only if we measure */
	size_t peak;           /* most memory of PHP; 0 until PHP is about to reset its own count */
	/* A copy of the request head: PHP reads it after fastcgi_finish_request(), too. */
	_Alignas(16) unsigned char head[ipc_HEAD_SIZE];
};

#endif
