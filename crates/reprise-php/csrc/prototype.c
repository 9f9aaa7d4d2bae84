/*
 * The prototype: starts PHP's modules once, so that its workers share one opcache and nobody else does, and then forks
 * a worker whenever the supervisor asks. It runs no PHP code and never maps the slab.
 *
 * One thread, one loop over three descriptors: the control socket (messages of wire's control.rs, one per packet), a
 * signalfd for SIGCHLD, and the lifeline. When the supervisor is gone it forks no more and ends with its last worker.
 *
 * Descriptors of ours live above 1000, out of the way of what PHP code opens.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "reprise.h"

#define SERVICE_FD 1000
#define MAX_WORKERS 1024
/* How long workers may go on after the supervisor's death; the front gives up a little earlier. */
#define ORPHAN_SECONDS 35

static struct {
	int slab; /* -1 until the supervisor has sent one */
	struct wire_Geometry geometry;
	uint64_t epoch;
	int eventfds[wire_MAX_DOORS];
	int signals;
	bool draining;
	uint32_t alive;
	/* Workers by no order: those of an earlier epoch end while their slots are filled anew. */
	struct worker_entry {
		pid_t pid; /* 0: free */
		uint32_t slot;
		uint64_t epoch;
	} workers[2 * MAX_WORKERS];
} prototype = {.slab = -1};

/* Moves a descriptor above SERVICE_FD, close-on-exec. Keeps it where it is if the limit does not allow that. */
static int lift(int descriptor)
{
	int lifted = fcntl(descriptor, F_DUPFD_CLOEXEC, SERVICE_FD);

	if (lifted < 0) {
		(void)fcntl(descriptor, F_SETFD, FD_CLOEXEC);
		return descriptor;
	}
	close(descriptor);
	return lifted;
}

static struct wire_Message message(enum wire_Kind kind, uint32_t slot)
{
	return (struct wire_Message){.kind = kind, .application = reprise_options.number, .slot = slot};
}

/* The supervisor reads all the time; if it is gone the lifeline says so, and the message has no reader anyway. */
static void tell(const struct wire_Message *what)
{
	while (send(reprise_options.control, what, sizeof *what, MSG_NOSIGNAL) < 0 && errno == EINTR) {
	}
}

static void forget_slab(void)
{
	if (prototype.slab < 0) {
		return;
	}
	close(prototype.slab);
	for (uint32_t i = 0; i < wire_MAX_DOORS; i++) {
		if (prototype.eventfds[i] >= 0) {
			close(prototype.eventfds[i]);
		}
	}
	prototype.slab = -1;
}

/* Workers forked from now on use this slab: descriptors are the slab and one eventfd per front thread. */
static void take_slab(const struct wire_Message *what, const int *descriptors, size_t count)
{
	forget_slab();
	prototype.slab = lift(descriptors[0]);
	prototype.geometry = what->geometry;
	prototype.epoch = what->epoch;
	for (uint32_t i = 0; i < wire_MAX_DOORS; i++) {
		prototype.eventfds[i] = i + 1 < count ? lift(descriptors[i + 1]) : -1;
	}
}

static void become_worker(uint32_t slot, pid_t parent)
{
	sigset_t none;

	/* First the way to the supervisor is closed: once this process is open to its user, siblings can look into it. */
	close(prototype.signals);
	close(reprise_options.control);
	reprise_options.control = -1;
	/* Dies with its parent; if that is dead already, at once. Its own memory is open to itself again. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || prctl(PR_SET_DUMPABLE, 1) != 0 || getppid() != parent) {
		_exit(REPRISE_EXIT_UNHEALTHY);
	}
	/* Being woken, it does not push the front from its CPU in the middle of a batch. Programs it starts are normal. */
	struct sched_param none_needed = {0};
	(void)sched_setscheduler(0, SCHED_BATCH | SCHED_RESET_ON_FORK, &none_needed);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	reprise_worker_run(prototype.slab, &prototype.geometry, slot, prototype.eventfds);
}

static struct worker_entry *find_worker(pid_t pid)
{
	for (size_t i = 0; i < sizeof prototype.workers / sizeof *prototype.workers; i++) {
		if (prototype.workers[i].pid == pid) {
			return &prototype.workers[i];
		}
	}
	return NULL;
}

static void spawn(const struct wire_Message *what)
{
	struct wire_Message answer = message(wire_Kind_Spawned, what->slot);
	struct worker_entry *entry = find_worker(0);
	pid_t parent = getpid();

	answer.epoch = what->epoch;
	if (prototype.slab < 0 || what->epoch != prototype.epoch || what->slot >= MAX_WORKERS || prototype.draining) {
		answer.status = ESTALE;
	} else if (!entry) {
		answer.status = EAGAIN;
	} else {
		fflush(NULL);
		pid_t pid = fork();
		if (pid == 0) {
			become_worker(what->slot, parent);
		}
		if (pid < 0) {
			answer.status = errno;
		} else {
			answer.pid = pid;
			*entry = (struct worker_entry){pid, what->slot, what->epoch};
			prototype.alive++;
		}
	}
	tell(&answer);
}

static void reap(void)
{
	struct signalfd_siginfo info;
	int status;
	pid_t pid;

	/* One read may stand for several deaths. */
	while (read(prototype.signals, &info, sizeof info) == sizeof info) {
	}
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		struct worker_entry *entry = find_worker(pid);
		if (entry) {
			struct wire_Message dead = message(wire_Kind_Dead, entry->slot);
			dead.pid = pid;
			dead.status = status;
			dead.epoch = entry->epoch;
			entry->pid = 0;
			prototype.alive--;
			tell(&dead);
		}
	}
}

/* Reads one packet. False when the supervisor has closed its end. */
static bool listen_to_supervisor(void)
{
	struct wire_Message what;
	int descriptors[wire_MAX_DOORS + 1];
	_Alignas(struct cmsghdr) char space[CMSG_SPACE(sizeof descriptors)];
	struct iovec part = {&what, sizeof what};
	struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
	ssize_t size = recvmsg(reprise_options.control, &packet, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	size_t count = 0;

	if (size < 0) {
		return errno == EAGAIN || errno == EINTR;
	}
	if (size == 0) {
		return false;
	}
	struct cmsghdr *attached = CMSG_FIRSTHDR(&packet);
	if (attached && attached->cmsg_level == SOL_SOCKET && attached->cmsg_type == SCM_RIGHTS) {
		count = (attached->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(descriptors, CMSG_DATA(attached), count * sizeof(int));
	}
	if (packet.msg_flags & MSG_CTRUNC) {
		reprise_log_line("error", "descriptors of the supervisor were lost; is the limit of open files too low?");
		return false;
	}
	if (size != sizeof what || !wire_message_is_valid(&what)) {
		reprise_log_line("error", "the supervisor sent a message of %zd bytes that makes no sense", size);
		return true;
	}
	switch (what.kind) {
	case wire_Kind_Lane:
		if (count > 0) {
			take_slab(&what, descriptors, count);
		}
		break;
	case wire_Kind_Spawn: spawn(&what); break;
	case wire_Kind_Drain: prototype.draining = true; break;
	default: reprise_log_line("error", "the supervisor sent message %u, which is not for PHP", what.kind);
	}
	return true;
}

static bool catch_signals(void)
{
	sigset_t watched;

	sigemptyset(&watched);
	sigaddset(&watched, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &watched, NULL) != 0) {
		return false;
	}
	prototype.signals = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
	if (prototype.signals >= 0) {
		prototype.signals = lift(prototype.signals);
	}
	return prototype.signals >= 0;
}

static time_t seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + 1;
}

static void kill_workers(void)
{
	for (size_t i = 0; i < sizeof prototype.workers / sizeof *prototype.workers; i++) {
		if (prototype.workers[i].pid > 0) {
			kill(prototype.workers[i].pid, SIGKILL);
		}
	}
}

int reprise_prototype_run(void)
{
	if (chdir("/") != 0) {
		return REPRISE_EXIT_INTERNAL;
	}
	reprise_options.control = lift(reprise_options.control);
	reprise_options.lifeline = lift(reprise_options.lifeline);
	if (!catch_signals()) {
		fprintf(stderr, "reprise-php: cannot watch for signals: %s\n", strerror(errno));
		return REPRISE_EXIT_INTERNAL;
	}
	/* Workers have the same user: they shall not reach into the process that speaks to the supervisor. */
	(void)prctl(PR_SET_DUMPABLE, 0);
	if (!reprise_sapi_start()) {
		fprintf(stderr, "reprise-php: PHP's modules did not start (application %s)\n", reprise_options.name);
		return REPRISE_EXIT_BOOT;
	}
	struct wire_Message ready = message(wire_Kind_Ready, 0);
	ready.limit = reprise_body_limit();
	tell(&ready);

	time_t orphaned_at = 0;
	while (!prototype.draining || prototype.alive > 0) {
		struct pollfd watched[] = {
		    {.fd = prototype.signals, .events = POLLIN},
		    /* Once draining, nothing more is said to us; a closed socket would only spin the loop. */
		    {.fd = prototype.draining ? -1 : reprise_options.control, .events = POLLIN},
		    {.fd = prototype.draining ? -1 : reprise_options.lifeline, .events = 0},
		};
		if (poll(watched, 3, orphaned_at ? 1000 : -1) < 0 && errno != EINTR) {
			return REPRISE_EXIT_INTERNAL;
		}
		if (orphaned_at && seconds() - orphaned_at > ORPHAN_SECONDS) {
			kill_workers();
		}
		if (watched[0].revents) {
			reap();
		}
		if (watched[2].revents || (watched[1].revents && !listen_to_supervisor())) {
			prototype.draining = true;
			orphaned_at = seconds();
		}
	}
	return REPRISE_EXIT_DRAINED;
}
