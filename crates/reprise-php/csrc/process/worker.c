/*
 * What workers of all modes do: they map the slab, wait for requests, and let the kernel end them first when memory
 * runs out. A child that PHP code forks is no worker.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../data/data.h"
#include "loaded.h"
#include "../core/log.h"
#include "../core/options.h"
#include "overtime.h"
#include "../core/raw.h"
#include "../core/snapshot_state.h"
#include "ipc.h"
#include "worker.h"
#include "../core/worker_state.h"
#include "../core/forker_state.h"

/* A child that PHP code forks has no slab (MADV_DONTFORK), and must not act as a worker. */
void process_in_forked_child(void)
{
	data_fork_ended();
	reprise_worker->is_template = false;
	snapshot->notes.in_request = false;
	reprise_worker->is_worker = false;
	reprise_worker->responding = false;
}

int process_watch_forks(void)
{
	return pthread_atfork(data_fork_begins, NULL, process_in_forked_child);
}

/* The kernel empties this page in each child, however the child is made. Looking at it takes no system call. */
static const volatile bool *mark;

void process_mark(void)
{
	long page = sysconf(_SC_PAGESIZE);
	bool *made = mmap(NULL, (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	reprise_worker->pid = getpid();
	if (made != MAP_FAILED && madvise(made, (size_t)page, MADV_WIPEONFORK) == 0) {
		*made = true;
		mark = made;
	}
}

bool process_is_marked(void)
{
	return mark ? *mark : getpid() == reprise_worker->pid;
}

bool process_sees_calls(void)
{
#ifdef __SANITIZE_ADDRESS__
	return false;
#else
	return true;
#endif
}

static bool supervisor_is_gone(void)
{
	struct pollfd lifeline = {.fd = reprise_forker->lifeline, .events = 0};

	if (poll(&lifeline, 1, 0) <= 0) {
		return false;
	}
	if (lifeline.revents & POLLNVAL) {
		/* The application has closed descriptors of this worker, maybe standard error, too. The supervisor logs the
		 * reason.
		 */
		ipc_recycled(&reprise_worker->ipc, ipc_Recycle_Descriptors);
		_exit(ipc_Exit_Descriptors);
	}
	return true;
}

bool process_await_request(void)
{
	process_loaded_look(false);
	for (;;) {
		int next = ipc_next(&reprise_worker->ipc);
		if (next != 0) {
			return next > 0;
		}
		process_loaded_look(true);
		if (supervisor_is_gone()) {
			return false;
		}
	}
}

void process_worker_offers_memory(void)
{
	const char *score = reprise_options.oom_score;
	long file = RAW4(SYS_openat, AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC, 0);
	size_t size = 0;

	/* Without it the kernel goes by the size of a process alone. */
	if (file < 0) {
		return;
	}
	while (score[size]) {
		size++;
	}
	RAW3(SYS_write, (int)file, score, size);
	RAW1(SYS_close, (int)file);
}

void process_worker_attach(int slab, const struct ipc_Geometry *geometry, uint32_t slot, const int *eventfds)
{
	int error = ipc_attach(&reprise_worker->ipc, slab, geometry, slot, (uint32_t)getpid(),
	                       (const int(*)[ipc_MAX_DOORS])eventfds);

	if (error) {
		reprise_log_line("error", "a worker cannot map the slab: %s", strerror(error));
		_exit(ipc_Exit_Unhealthy);
	}
	close(slab);
	process_overtime_watch();
	process_worker_offers_memory();
	reprise_worker->slot = slot;
	reprise_worker->pid = getpid();
	reprise_worker->is_worker = true;
}
