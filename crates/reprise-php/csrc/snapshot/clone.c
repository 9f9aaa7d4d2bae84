/*
 * A clone: a worker of a template. The template forks it by the raw system call from the service stack, so its memory
 * is the image, byte for byte, except for its identity: its thread id, by which locks in shared memory know their
 * owner, and its rseq area, to which the kernel writes.
 *
 * Its loop runs on the service stack: wait for a request, resume PHP, rewind. In fork isolation it ends after one
 * request.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "../data/data.h"
#include "../process/forker.h"
#include "../process/loaded.h"
#include "../core/log.h"
#include "../core/options.h"
#include "../core/raw.h"
#include "../request/request.h"
#include "../process/worker.h"
#include "clone.h"
#include "hot.h"
#include "kernel.h"
#include "learn.h"
#include "prove.h"
#include "rewind.h"
#include "../core/snapshot_state.h"
#include "ipc.h"
#include "../core/descriptors.h"
#include "../core/forker_link.h"
#include "../core/recycle.h"
#include "ways.h"
#include "../core/worker_state.h"
#include "../core/forker_state.h"
#include "open.h"
#include "../connections/connections.h"

static void unhealthy(const char *what)
{
	reprise_service_log("error", "a clone cannot start", what);
	for (;;) {
		RAW1(SYS_exit_group, ipc_Exit_Unhealthy);
	}
}

static void watch_memory(void)
{
	const char *why = snapshot_way()->arm();

	if (why) {
		reprise_recycle(ipc_Recycle_Kernel, why);
	}
	for (size_t i = 0; i < IDENTITIES; i++) {
		snapshot_pin(snapshot->image.identity[i].start, snapshot->image.identity[i].end);
	}
	snapshot_way()->end();
}

static bool supervisor_is_gone(void)
{
	struct pollfd lifeline = {.fd = reprise_forker->lifeline, .events = 0};
	struct timespec at_once = {0};

	return raw6(SYS_ppoll, (long)&lifeline, 1, (long)&at_once, 0, RAW_SIGSET_SIZE, 0) > 0;
}

/*
 * Pages that requests have written belong to the clone alone, rewound or not: 3 MiB for WordPress. A clone without a
 * request for so many seconds ends. A fresh clone takes its place, and shares all pages with the template. Clones end
 * one after the other, and only if that frees enough pages: a fresh clone has to learn the hot pages again.
 */
#define IDLE_S 20
#define IDLE_SPREAD 10
#define IDLE_PAGES 128

/* After a wait without a request, which takes a second: the clone gives back what is put back by nobody, 1.3 MiB for
 * WordPress. A request after that has a page fault for each page that it uses of them. */
static void shrink_or_leave(uint64_t seconds)
{
	if (snapshot->hot.open_count > 0) {
		snapshot_close_free();
	}
	if (seconds >= IDLE_S + reprise_worker->slot % IDLE_SPREAD && snapshot->hot.count >= IDLE_PAGES) {
		ipc_recycled(&reprise_worker->ipc, ipc_Recycle_Idle);
		connections_say_goodbye();
		for (;;) {
			RAW1(SYS_exit_group, ipc_Exit_Recycle);
		}
	}
}

static void serve_one(void)
{
	if (!connections_are_alive()) {
		snapshot_connections_drop();
	}
	if (!request_claim()) {
		return;
	}
	snapshot->notes.dirty = 0;
	snapshot->connections.is_holding = false;
	snapshot->notes.in_request = true;
	swapcontext(&snapshot->service, &snapshot->php);
	snapshot->notes.in_request = false;
	if (snapshot->isolation == ipc_Isolation_Fork) {
		data_leave();
		for (;;) {
			RAW1(SYS_exit_group, ipc_Exit_Success);
		}
	}
	if (snapshot_learn_leaves()) {
		ipc_recycled(&reprise_worker->ipc, ipc_Recycle_Learned);
		connections_say_goodbye();
		for (;;) {
			RAW1(SYS_exit_group, ipc_Exit_Recycle);
		}
	}
	connections_leave_if_wanted();
	connections_begin_reset();
	snapshot_rewind();
	connections_end_reset();
	data_end_request();
}

static _Noreturn void clone_main(struct forker *forker, uint32_t slot, pid_t parent)
{
	struct sched_param none_needed = {0};
	size_t extent[2];

	/* The socket to the supervisor is closed first: other processes of the user can look into this one as soon as it is
	 * dumpable. */
	reprise_forker_leave(forker);
	if (RAW2(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL) < 0 || RAW2(SYS_prctl, PR_SET_DUMPABLE, 1) < 0
	    || RAW0(SYS_getppid) != parent) {
		unhealthy("its parent is gone");
	}
	RAW3(SYS_sched_setscheduler, 0, SCHED_BATCH | SCHED_RESET_ON_FORK, &none_needed);
	process_worker_offers_memory();
	reprise_worker->pid = (pid_t)RAW0(SYS_getpid);
	reprise_worker->slot = slot;
	reprise_worker->place = forker->place;
	reprise_worker->is_worker = true;
	reprise_worker->is_template = false;
	data_begin(DATA_SHARES, snapshot_rewinds());
	if (ipc_attach(&reprise_worker->ipc, forker->slab, &forker->geometry, slot, (uint32_t)reprise_worker->pid,
	               (const int(*)[ipc_MAX_DOORS])forker->eventfds)) {
		unhealthy("it cannot map the slab");
	}
	RAW1(SYS_close, forker->slab);
	ipc_extent(&reprise_worker->ipc, &extent);
	snapshot->image.own[OWN_SLAB] = (struct range){extent[0], extent[0] + TO_PAGE(extent[1])};
	if (snapshot_rewinds()) {
		RAW1(SYS_close, snapshot->image.own_smaps);
		RAW1(SYS_close, snapshot->image.own_pagemap);
	}
	snapshot_kernel_start();
	if (snapshot_rewinds()) {
		watch_memory();
		snapshot->kernel.descriptors += 1; /* by which memory is watched */
		snapshot_prove_start();
		if (reprise_options.audits) {
			snapshot_audit(false);
		}
		process_loaded_attach();
		snapshot_watch_goes_on();
		snapshot_connections_open();
	}
	for (uint64_t idle_since = 0;;) {
		int next = ipc_next(&reprise_worker->ipc);
		if (next < 0 || (next == 0 && supervisor_is_gone())) {
			connections_say_goodbye();
			RAW1(SYS_exit_group, ipc_Exit_Success);
		}
		if (next > 0) {
			serve_one();
			process_loaded_look(false);
			idle_since = 0;
		} else {
			/* The clock, and not a second for each return: all are woken when one dies. */
			uint64_t now = raw_seconds();
			idle_since = idle_since ? idle_since : now;
			process_loaded_look(true);
			shrink_or_leave(now - idle_since);
		}
	}
}

/* A child does what each clone does first, and ends. If no clone could start, the requests of the lane would wait. */
bool snapshot_clone_try(void)
{
	int status = -1;
	long pid = raw_fork_unheard();

	if (pid < 0) {
		reprise_service_log("error", "the script cannot be booted",
		                    pid == -EAGAIN ? "no process can be forked: RLIMIT_NPROC or pids.max is too low"
		                                   : "no process can be forked");
		return false;
	}
	if (pid == 0) {
		snapshot->is_trial = true;
		snapshot_kernel_start();
		if (snapshot_rewinds()) {
			watch_memory();
		}
		for (;;) {
			RAW1(SYS_exit_group, 0);
		}
	}
	while (RAW4(SYS_wait4, pid, &status, __WALL, NULL) == -EINTR) {
	}
	return status == 0;
}

long snapshot_clone_fork(struct forker *forker, uint32_t slot)
{
	pid_t parent = (pid_t)RAW0(SYS_getpid);
	unsigned long flags = SIGCHLD;

	snapshot_learn();
	uintptr_t tid = snapshot->image.identity[IDENTITY_THREAD].start;

	if (tid) {
		flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
	}
#if defined(__x86_64__)
	long pid = raw6(SYS_clone, (long)flags, 0, 0, (long)tid, 0, 0);
#else
	long pid = raw6(SYS_clone, (long)flags, 0, 0, 0, (long)tid, 0);
#endif
	if (pid == 0) {
		clone_main(forker, slot, parent);
	}
	return pid;
}
