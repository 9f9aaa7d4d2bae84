/*
 * The prototype of an application. It starts PHP's modules once, so its workers share one opcache, and no other process
 * does. Then it forks classic workers and templates when the supervisor asks. It runs no PHP code and never maps the
 * slab. Its loop is in forker.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "request/bodies.h"
#include "classic/classic.h"
#include "data/ask.h"
#include "data/data.h"
#include "process/forker.h"
#include "core/log.h"
#include "core/options.h"
#include "core/pinned.h"
#include "prototype.h"
#include "request/sapi.h"
#include "engine/random.h"
#include "core/snapshot_state.h"
#include "snapshot/template.h"
#include "process/watch.h"
#include "ipc.h"
#include "core/descriptors.h"
#include "core/forker_link.h"
#include "process/worker_process.h"
#include "process/worker.h"
#include "worker/worker_mode.h"
#include "core/worker_state.h"
#include "core/forker_state.h"

static long fork_worker(struct forker *forker, uint32_t slot)
{
	long pid = process_fork_worker(forker);

	if (pid == 0) {
		classic_run(forker->slab, &forker->geometry, slot, forker->eventfds);
	}
	return pid;
}

static void read_head(int file)
{
	ssize_t size = pread(file, reprise_worker->head, sizeof reprise_worker->head, 0);

	if (size < (ssize_t)sizeof(struct ipc_RequestHead)) {
		reprise_log_line("error", "the head of the boot request cannot be read");
		_exit(ipc_Exit_Internal);
	}
}

/* The process of a lane: it boots the lane's script, or tries it. */
static _Noreturn void become_lane(struct forker *forker, enum ipc_Isolation isolation, int control, int head)
{
	sigset_t none;

	reprise_forker_leave(forker);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || prctl(PR_SET_DUMPABLE, 1) != 0) {
		_exit(ipc_Exit_Unhealthy);
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (forker->slab >= 0) {
		close(forker->slab);
		for (size_t i = 0; i < ipc_MAX_DOORS; i++) {
			if (forker->eventfds[i] >= 0) {
				close(forker->eventfds[i]);
			}
		}
	}
	*forker = (struct forker){
	    .control = control,
	    .lifeline = forker->lifeline,
	    .slab = -1,
	    .watcher = -1,
	    .signals = -1,
	};
	for (size_t i = 0; i < ipc_MAX_DOORS; i++) {
		forker->eventfds[i] = -1;
	}
	read_head(head);
	close(head);
	if (process_watch_forks() != 0) {
		_exit(ipc_Exit_Unhealthy);
	}
	reprise_worker->pid = getpid();
	/* From here on it is not the prototype, whose place in the data cache it must not use. */
	data_begin(DATA_COPIES, false);
	/* Of the lane's workers before, whose forker is gone. */
	data_reaped(0);
	if (isolation == ipc_Isolation_WorkerMode) {
		worker_run(forker);
	}
	snapshot_template_run(forker, isolation);
}

static long fork_template(struct forker *forker, enum ipc_Isolation isolation, int control, int head)
{
	pid_t parent = getpid();

	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		if (getppid() != parent) {
			_exit(ipc_Exit_Unhealthy);
		}
		become_lane(forker, isolation, control, head);
	}
	return pid < 0 ? -errno : pid;
}

static const struct forker_methods methods = {
    .fork_worker = fork_worker,
    .fork_template = fork_template,
    .answer = data_question,
    .tell = data_tell_counts,
};

/* Added to oom_score_adj of workers: the kernel then takes them for larger by a tenth of all memory. */
#define OFFERED 100
#define MOST_OFFERED 1000

static void choose_oom_score(void)
{
	FILE *file = fopen("/proc/self/oom_score_adj", "re");
	int score = 0;

	if (file) {
		if (fscanf(file, "%d", &score) != 1) {
			score = 0;
		}
		fclose(file);
	}
	score += OFFERED;
	snprintf(reprise_options.oom_score, sizeof reprise_options.oom_score, "%d",
	         score < MOST_OFFERED ? score : MOST_OFFERED);
}

int reprise_prototype_run(void)
{
	struct forker *forker = reprise_forker;

	if (chdir("/") != 0) {
		return ipc_Exit_Internal;
	}
	*forker = (struct forker){
	    .methods = &methods,
	    .control = reprise_lift(reprise_options.control),
	    .lifeline = reprise_lift(reprise_options.lifeline),
	    .slab = -1,
	    .watcher = -1,
	};
	if (reprise_options.userfaultfd >= 0) {
		reprise_options.userfaultfd = reprise_lift(reprise_options.userfaultfd);
	}
	if (reprise_options.phar >= 0) {
		reprise_pin_phar(reprise_lift(reprise_options.phar));
	}
	if (reprise_options.data_store >= 0) {
		reprise_options.data_store = reprise_lift(reprise_options.data_store);
	}
	for (size_t i = 0; i < ipc_MAX_DOORS; i++) {
		forker->eventfds[i] = -1;
	}
	choose_oom_score();
	int error = process_forker_start(forker);
	if (error < 0) {
		fprintf(stderr, "reprise-php: cannot watch for signals: %s\n", strerror(-error));
		return ipc_Exit_Internal;
	}
	/* Workers have the same user. They must not look into the process that has the socket to the supervisor. */
	(void)prctl(PR_SET_DUMPABLE, 0);
	if (!request_sapi_start()) {
		fprintf(stderr, "reprise-php: PHP's modules did not start (application %s)\n", reprise_options.name);
		return ipc_Exit_NotBooted;
	}
	engine_random_share();
	data_attach();
	if (reprise_options.watches && (error = process_watch_start(forker)) < 0) {
		reprise_log_line("error", "files are not watched: %s", error == -ENOENT ? "opcache is off" : strerror(-error));
	}
	struct ipc_FromForker ready = {.tag = ipc_FromForker_PrototypeReady};
	request_describe_bodies(&ready.prototype_ready.bodies);
	reprise_forker_tell(forker, &ready);
	data_tell_counts(forker);
	return process_forker_run(forker);
}
