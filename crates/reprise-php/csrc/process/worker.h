/* What workers of all modes do. */
#ifndef REPRISE_WORKER_H
#define REPRISE_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "ipc.h"
#include "../core/state.h"
#include "../core/worker_state.h"

void process_worker_attach(int slab, const struct ipc_Geometry *geometry, uint32_t slot, const int *eventfds);
/* On any stack. When the system runs out of memory, the kernel ends this worker before the processes that serve others.
 */
void process_worker_offers_memory(void);
/* Waits until a request is queued for the lane. False: no request will come, and the worker is to end. */
bool process_await_request(void);
/* In a process that may fork children by PHP code. 0, or an errno. */
int process_watch_forks(void);
void process_in_forked_child(void);
/* Marks this process: it is a worker, and a child that it forks is none. */
void process_mark(void);
bool process_is_marked(void);
/* Whether dirty*.c sees calls at all. */
bool process_sees_calls(void);

#endif
