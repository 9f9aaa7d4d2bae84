/* A forker makes a worker of classic mode, or of a worker script. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "forker.h"
#include "../core/forker_link.h"
#include "../engine/random.h"
#include "ipc.h"
#include "worker_process.h"
#include "../core/forker_state.h"

static void become_worker(struct forker *forker, pid_t parent)
{
	sigset_t none;

	/* The socket to the supervisor is closed first: other processes of the user can look into this one as soon as it is
	 * dumpable. */
	reprise_forker_leave(forker);
	/* A worker dies with its parent, and ends now if the parent is dead. It is dumpable, so that it can read its own
	 * /proc/self. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || prctl(PR_SET_DUMPABLE, 1) != 0 || getppid() != parent) {
		_exit(ipc_Exit_Unhealthy);
	}
	/* A worker that is woken does not preempt the front. Programs that it starts are scheduled normally. */
	struct sched_param none_needed = {0};
	(void)sched_setscheduler(0, SCHED_BATCH | SCHED_RESET_ON_FORK, &none_needed);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

long process_fork_worker(struct forker *forker)
{
	pid_t parent = getpid();

	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		become_worker(forker, parent);
		engine_random_part();
	}
	return pid < 0 ? -errno : pid;
}
