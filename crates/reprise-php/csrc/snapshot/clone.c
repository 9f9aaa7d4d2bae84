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
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "../data/data.h"
#include "../forker.h"
#include "../loaded.h"
#include "../log.h"
#include "../options.h"
#include "../raw.h"
#include "../request.h"
#include "../worker.h"
#include "clone.h"
#include "hot.h"
#include "kernel.h"
#include "learn.h"
#include "prove.h"
#include "rewind.h"
#include "scan.h"
#include "snapshot.h"
#include "wire.h"

void reprise_blame(const char *what, uintptr_t address)
{
	struct raw_text text = {0};

	raw_add(&text, what);
	if (address) {
		raw_add(&text, " at ");
		raw_add_hex(&text, address);
	}
	text.size = text.size < sizeof snapshot->culprit ? text.size : sizeof snapshot->culprit - 1;
	raw_copy(snapshot->culprit, text.bytes, text.size);
	snapshot->culprit[text.size] = 0;
}

void reprise_recycle(enum wire_Recycle why, const char *detail)
{
	struct raw_text text = {0};
	uint8_t word[16];

	if (snapshot->is_trial) {
		reprise_service_log("error", "the script cannot be booted: no worker can start from its snapshot", detail);
		for (;;) {
			RAW1(SYS_exit_group, wire_Exit_NotBooted);
		}
	}
	wire_recycle_word(why, &word);
	raw_add(&text, "recycled: ");
	raw_add(&text, (const char *)word);
	text.bytes[text.size] = 0;
	wire_recycled(&reprise_worker->wire, why);
	reprise_connections_say_goodbye();
	reprise_service_log(why == wire_Recycle_Audit ? "error" : "notice", text.bytes, detail);
	for (;;) {
		RAW1(SYS_exit_group, wire_Exit_Recycle);
	}
}

static void unhealthy(const char *what)
{
	reprise_service_log("error", "a clone cannot start", what);
	for (;;) {
		RAW1(SYS_exit_group, wire_Exit_Unhealthy);
	}
}

/* By the system call, or by the device if there is one: a container's profile may deny one and allow the other. */
long reprise_new_userfaultfd(void)
{
	long descriptor = RAW1(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);

	if (descriptor < 0 && reprise_options.userfaultfd >= 0) {
		long made = RAW3(SYS_ioctl, reprise_options.userfaultfd, USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK);
		descriptor = made < 0 ? descriptor : made;
	}
	return descriptor;
}

long reprise_set_up_userfaultfd(int descriptor)
{
	struct uffdio_api api = {
	    .api = UFFD_API,
	    .features = UFFD_FEATURE_WP_ASYNC | UFFD_FEATURE_WP_UNPOPULATED | UFFD_FEATURE_PAGEFAULT_FLAG_WP,
	};

	return RAW3(SYS_ioctl, descriptor, UFFDIO_API, &api);
}

/* A userfaultfd that is set up refuses a second set-up with EINVAL. Any other descriptor gives another error. */
bool reprise_is_userfaultfd(int descriptor)
{
	struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_WP_ASYNC};

	return RAW3(SYS_ioctl, descriptor, UFFDIO_API, &api) == -EINVAL;
}

static void watch_memory(void)
{
	long descriptor = reprise_new_userfaultfd();
	if (descriptor < 0) {
		reprise_recycle(wire_Recycle_Kernel, "no userfaultfd can be opened");
	}
	snapshot->uffd = reprise_lift((int)descriptor);
	if (reprise_set_up_userfaultfd(snapshot->uffd) < 0) {
		reprise_recycle(wire_Recycle_Kernel, "the userfaultfd cannot be set up");
	}
	bool done = reprise_is_userfaultfd(snapshot->uffd);
	for (size_t i = 0; done && i < snapshot->region_count; i++) {
		const struct region *region = &snapshot->regions[i];
		done = reprise_register(region->start, region->end) && reprise_protect(region->start, region->end);
	}
	if (!done) {
		reprise_recycle(wire_Recycle_Kernel, "memory cannot be watched");
	}
	for (size_t i = 0; i < IDENTITIES; i++) {
		reprise_pin(snapshot->identity[i].start, snapshot->identity[i].end);
	}
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
	if (snapshot->open_count > 0) {
		reprise_close_free();
	}
	if (seconds >= IDLE_S + reprise_worker->slot % IDLE_SPREAD && snapshot->hot_count >= IDLE_PAGES) {
		wire_recycled(&reprise_worker->wire, wire_Recycle_Idle);
		reprise_connections_say_goodbye();
		for (;;) {
			RAW1(SYS_exit_group, wire_Exit_Recycle);
		}
	}
}

static void serve_one(void)
{
	if (!reprise_connections_are_alive()) {
		reprise_connections_drop();
	}
	if (!reprise_claim_request()) {
		return;
	}
	snapshot->dirty = 0;
	snapshot->connections.is_holding = false;
	snapshot->in_request = true;
	swapcontext(&snapshot->service, &snapshot->php);
	snapshot->in_request = false;
	if (snapshot->isolation == wire_Isolation_Fork) {
		reprise_data_leave();
		for (;;) {
			RAW1(SYS_exit_group, wire_Exit_Success);
		}
	}
	if (reprise_learn_leaves()) {
		wire_recycled(&reprise_worker->wire, wire_Recycle_Learned);
		reprise_connections_say_goodbye();
		for (;;) {
			RAW1(SYS_exit_group, wire_Exit_Recycle);
		}
	}
	reprise_connections_leave_if_wanted();
	reprise_connections_begin_reset();
	reprise_rewind();
	reprise_connections_end_reset();
	reprise_data_end_request();
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
	reprise_worker_offers_memory();
	reprise_worker->pid = (pid_t)RAW0(SYS_getpid);
	reprise_worker->slot = slot;
	reprise_worker->place = forker->place;
	reprise_worker->is_worker = true;
	reprise_worker->is_template = false;
	reprise_data_begin(DATA_SHARES, snapshot->isolation == wire_Isolation_Rewind);
	if (wire_attach(&reprise_worker->wire, forker->slab, &forker->geometry, slot, (uint32_t)reprise_worker->pid,
	                (const int(*)[wire_MAX_DOORS])forker->eventfds)) {
		unhealthy("it cannot map the slab");
	}
	RAW1(SYS_close, forker->slab);
	wire_extent(&reprise_worker->wire, &extent);
	snapshot->own[OWN_SLAB] = (struct range){extent[0], extent[0] + TO_PAGE(extent[1])};
	if (snapshot->isolation == wire_Isolation_Rewind) {
		RAW1(SYS_close, snapshot->own_smaps);
		RAW1(SYS_close, snapshot->own_pagemap);
	}
	reprise_kernel_start();
	if (snapshot->isolation == wire_Isolation_Rewind) {
		watch_memory();
		snapshot->descriptors += 1; /* the userfaultfd */
		reprise_prove_start();
		if (reprise_options.audits) {
			reprise_audit(false);
		}
		reprise_loaded_attach();
		snapshot->faults = reprise_faults();
		reprise_connections_open();
	}
	for (uint64_t idle_since = 0;;) {
		int next = wire_next(&reprise_worker->wire);
		if (next < 0 || (next == 0 && supervisor_is_gone())) {
			reprise_connections_say_goodbye();
			RAW1(SYS_exit_group, wire_Exit_Success);
		}
		if (next > 0) {
			serve_one();
			reprise_loaded_look(false);
			idle_since = 0;
		} else {
			/* The clock, and not a second for each return: all are woken when one dies. */
			uint64_t now = raw_seconds();
			idle_since = idle_since ? idle_since : now;
			reprise_loaded_look(true);
			shrink_or_leave(now - idle_since);
		}
	}
}

/* A child does what each clone does first, and ends. If no clone could start, the requests of the lane would wait. */
bool reprise_clone_try(void)
{
	int status = -1;
	/* The child sends no signal at its end, so it can be waited for, whatever the application has set for SIGCHLD. */
	long pid = raw6(SYS_clone, 0, 0, 0, 0, 0, 0);

	if (pid == -EINVAL) {
		/* An emulator of another processor makes no child without a signal. */
		pid = raw6(SYS_clone, SIGCHLD, 0, 0, 0, 0, 0);
	}
	if (pid < 0) {
		reprise_service_log("error", "the script cannot be booted",
		                    pid == -EAGAIN ? "no process can be forked: RLIMIT_NPROC or pids.max is too low"
		                                   : "no process can be forked");
		return false;
	}
	if (pid == 0) {
		snapshot->is_trial = true;
		reprise_kernel_start();
		if (snapshot->isolation == wire_Isolation_Rewind) {
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

long reprise_clone_fork(struct forker *forker, uint32_t slot)
{
	pid_t parent = (pid_t)RAW0(SYS_getpid);
	unsigned long flags = SIGCHLD;

	reprise_learn();
	uintptr_t tid = snapshot->identity[IDENTITY_THREAD].start;

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
