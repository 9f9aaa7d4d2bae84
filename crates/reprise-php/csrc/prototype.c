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

#include "bodies.h"
#include "classic/classic.h"
#include "data/ask.h"
#include "data/data.h"
#include "forker.h"
#include "log.h"
#include "options.h"
#include "pinned.h"
#include "prototype.h"
#include "sapi.h"
#include "snapshot/random.h"
#include "snapshot/snapshot.h"
#include "snapshot/template.h"
#include "watch.h"
#include "wire.h"

static void become_worker(struct forker *forker, pid_t parent)
{
	sigset_t none;

	/* The socket to the supervisor is closed first: other processes of the user can look into this one as soon as it is
	 * dumpable. */
	reprise_forker_leave(forker);
	/* A worker dies with its parent, and ends now if the parent is dead. It is dumpable, so that it can read its own
	 * /proc/self. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || prctl(PR_SET_DUMPABLE, 1) != 0 || getppid() != parent) {
		_exit(wire_Exit_Unhealthy);
	}
	/* A worker that is woken does not preempt the front. Programs that it starts are scheduled normally. */
	struct sched_param none_needed = {0};
	(void)sched_setscheduler(0, SCHED_BATCH | SCHED_RESET_ON_FORK, &none_needed);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

long reprise_fork_worker(struct forker *forker)
{
	pid_t parent = getpid();

	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		become_worker(forker, parent);
		reprise_random_part();
	}
	return pid < 0 ? -errno : pid;
}

static long fork_worker(struct forker *forker, uint32_t slot)
{
	long pid = reprise_fork_worker(forker);

	if (pid == 0) {
		reprise_classic_run(forker->slab, &forker->geometry, slot, forker->eventfds);
	}
	return pid;
}

static const struct forker_methods methods = {
    .fork_worker = fork_worker,
    .fork_template = reprise_template_fork,
    .answer = reprise_data_question,
    .tell = reprise_data_tell_counts,
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
		return wire_Exit_Internal;
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
	for (size_t i = 0; i < wire_MAX_DOORS; i++) {
		forker->eventfds[i] = -1;
	}
	choose_oom_score();
	int error = reprise_forker_start(forker);
	if (error < 0) {
		fprintf(stderr, "reprise-php: cannot watch for signals: %s\n", strerror(-error));
		return wire_Exit_Internal;
	}
	/* Workers have the same user. They must not look into the process that has the socket to the supervisor. */
	(void)prctl(PR_SET_DUMPABLE, 0);
	if (!reprise_sapi_start()) {
		fprintf(stderr, "reprise-php: PHP's modules did not start (application %s)\n", reprise_options.name);
		return wire_Exit_NotBooted;
	}
	reprise_random_share();
	reprise_data_attach();
	if (reprise_options.watches && (error = reprise_watch_start(forker)) < 0) {
		reprise_log_line("error", "files are not watched: %s", error == -ENOENT ? "opcache is off" : strerror(-error));
	}
	struct wire_FromForker ready = {.tag = wire_FromForker_PrototypeReady};
	reprise_describe_bodies(&ready.prototype_ready.bodies);
	reprise_forker_tell(forker, &ready);
	reprise_data_tell_counts(forker);
	return reprise_forker_run(forker);
}
