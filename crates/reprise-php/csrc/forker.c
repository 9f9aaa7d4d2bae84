/* See forker.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "forker.h"
#include "raw.h"
#include "reprise.h"

/* How long workers may go on after the supervisor's death; the front gives up a little earlier. */
#define ORPHAN_SECONDS 35

int reprise_lift(int descriptor)
{
	long lifted = raw3(SYS_fcntl, descriptor, F_DUPFD_CLOEXEC, SERVICE_FD);

	if (lifted < 0) {
		raw3(SYS_fcntl, descriptor, F_SETFD, FD_CLOEXEC);
		return descriptor;
	}
	raw1(SYS_close, descriptor);
	return (int)lifted;
}

int reprise_forker_start(struct forker *forker)
{
	uint64_t watched = UINT64_C(1) << (SIGCHLD - 1);
	struct raw_sigaction normal = {0};

	/* Ignored, it would reap the children before they could be reported. */
	raw4(SYS_rt_sigaction, SIGCHLD, &normal, NULL, RAW_SIGSET_SIZE);
	long error = raw4(SYS_rt_sigprocmask, SIG_BLOCK, &watched, NULL, RAW_SIGSET_SIZE);
	if (error < 0) {
		return (int)error;
	}
	long signals = raw4(SYS_signalfd4, -1, &watched, RAW_SIGSET_SIZE, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals < 0) {
		return (int)signals;
	}
	forker->signals = reprise_lift((int)signals);
	return 0;
}

/* The supervisor reads all the time; if it is gone the lifeline says so, and the message has no reader anyway. */
void reprise_forker_tell(struct forker *forker, const struct wire_Message *what)
{
	while (raw6(SYS_sendto, forker->control, (long)what, sizeof *what, MSG_NOSIGNAL, 0, 0) == -EINTR) {
	}
}

static struct wire_Message message(const struct forker *forker, enum wire_Kind kind, uint32_t lane, uint32_t slot)
{
	return (struct wire_Message){.kind = kind, .application = forker->application, .lane = lane, .slot = slot};
}

static void forget_slab(struct forker *forker)
{
	if (forker->slab < 0) {
		return;
	}
	raw1(SYS_close, forker->slab);
	for (uint32_t i = 0; i < wire_MAX_DOORS; i++) {
		if (forker->eventfds[i] >= 0) {
			raw1(SYS_close, forker->eventfds[i]);
		}
	}
	forker->slab = -1;
}

/* Workers forked from now on use this slab: descriptors are the slab and one eventfd per front thread. */
static void take_slab(struct forker *forker, const struct wire_Message *what, const int *descriptors, size_t count)
{
	forget_slab(forker);
	forker->slab = reprise_lift(descriptors[0]);
	forker->geometry = what->geometry;
	forker->epoch = what->epoch;
	for (uint32_t i = 0; i < wire_MAX_DOORS; i++) {
		forker->eventfds[i] = i + 1 < count ? reprise_lift(descriptors[i + 1]) : -1;
	}
}

void reprise_forker_leave(struct forker *forker)
{
	raw1(SYS_close, forker->signals);
	raw1(SYS_close, forker->control);
	forker->control = -1;
	if (forker->watcher >= 0) {
		raw1(SYS_close, forker->watcher);
		forker->watcher = -1;
	}
}

static struct forker_child *find_child(struct forker *forker, pid_t pid)
{
	for (size_t i = 0; i < sizeof forker->children / sizeof *forker->children; i++) {
		if (forker->children[i].pid == pid) {
			return &forker->children[i];
		}
	}
	return NULL;
}

bool reprise_forker_has(struct forker *forker, pid_t pid)
{
	return pid > 0 && find_child(forker, pid);
}

static void report_fork(struct forker *forker, struct wire_Message *answer, struct forker_child *entry, long pid)
{
	if (pid < 0) {
		answer->status = (int)-pid;
	} else {
		answer->pid = (pid_t)pid;
		*entry = (struct forker_child){(pid_t)pid, answer->lane, answer->slot, answer->epoch};
		forker->alive++;
	}
	reprise_forker_tell(forker, answer);
}

static void spawn(struct forker *forker, const struct wire_Message *what)
{
	struct wire_Message answer = message(forker, wire_Kind_Spawned, forker->lane, what->slot);
	struct forker_child *entry = find_child(forker, 0);
	long pid;

	answer.epoch = what->epoch;
	if (forker->slab < 0 || what->epoch != forker->epoch || what->slot >= MAX_WORKERS || forker->draining) {
		pid = -ESTALE;
	} else if (!entry) {
		pid = -EAGAIN;
	} else {
		pid = forker->methods->fork_worker(forker, what->slot);
	}
	report_fork(forker, &answer, entry, pid);
}

static void boot(struct forker *forker, const struct wire_Message *what, const int *descriptors)
{
	struct wire_Message answer = message(forker, wire_Kind_Spawned, what->lane, wire_TEMPLATE);
	struct forker_child *entry = find_child(forker, 0);
	int control = reprise_lift(descriptors[0]), head = reprise_lift(descriptors[1]);
	long pid = -EINVAL;

	answer.epoch = what->epoch;
	if (forker->draining) {
		pid = -ESTALE;
	} else if (!entry) {
		pid = -EAGAIN;
	} else if (forker->methods->fork_template && what->lane > 0) {
		pid = forker->methods->fork_template(forker, what->lane, what->status, control, head);
	}
	raw1(SYS_close, control);
	raw1(SYS_close, head);
	report_fork(forker, &answer, entry, pid);
}

static void reap(struct forker *forker)
{
	struct signalfd_siginfo info;
	int status;
	long pid;

	/* One read may stand for several deaths. */
	while (raw3(SYS_read, forker->signals, &info, sizeof info) == sizeof info) {
	}
	while ((pid = raw4(SYS_wait4, -1, &status, WNOHANG, NULL)) > 0) {
		struct forker_child *entry = find_child(forker, (pid_t)pid);
		if (entry) {
			struct wire_Message dead = message(forker, wire_Kind_Dead, entry->lane, entry->slot);
			dead.pid = (pid_t)pid;
			dead.status = status;
			dead.epoch = entry->epoch;
			entry->pid = 0;
			forker->alive--;
			reprise_forker_tell(forker, &dead);
		}
	}
}

static void close_all(const int *descriptors, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		raw1(SYS_close, descriptors[i]);
	}
}

static void obey(struct forker *forker, const struct wire_Message *what, const int *descriptors, size_t count)
{
	switch (what->kind) {
	case wire_Kind_Lane:
		if (count > 0) {
			take_slab(forker, what, descriptors, count);
			return;
		}
		break;
	case wire_Kind_Boot:
		if (count == 2) {
			boot(forker, what, descriptors);
			return;
		}
		break;
	case wire_Kind_Spawn: spawn(forker, what); break;
	case wire_Kind_Trace: reprise_forker_trace(forker, what); break;
	case wire_Kind_Ping: {
		struct wire_Message answer = message(forker, wire_Kind_Ping, forker->lane, 0);
		reprise_forker_tell(forker, &answer);
		break;
	}
	case wire_Kind_Drain: forker->draining = true; break;
	default: reprise_service_log("error", "the supervisor sent a message that is not for PHP", NULL);
	}
	close_all(descriptors, count);
}

/* Reads one packet. False when the supervisor has closed its end. */
static bool listen_to_supervisor(struct forker *forker)
{
	struct wire_Message what;
	int descriptors[wire_MAX_DOORS + 1];
	_Alignas(struct cmsghdr) char space[CMSG_SPACE(sizeof descriptors)];
	struct iovec part = {&what, sizeof what};
	struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
	long size = raw3(SYS_recvmsg, forker->control, &packet, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	size_t count = 0;

	if (size < 0) {
		return size == -EAGAIN || size == -EINTR;
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
		reprise_service_log("error", "descriptors of the supervisor were lost; is the limit of open files too low?",
		                    NULL);
		return false;
	}
	if (size != sizeof what || !wire_message_is_valid(&what)) {
		reprise_service_log("error", "the supervisor sent a message that makes no sense", NULL);
		close_all(descriptors, count);
		return true;
	}
	obey(forker, &what, descriptors, count);
	return true;
}

/* Files have changed: what runs was made of them as they were. */
static void listen_to_watcher(struct forker *forker)
{
	char byte;
	long size = raw3(SYS_read, forker->watcher, &byte, 1);

	if (size == 1) {
		struct wire_Message renew = message(forker, wire_Kind_Renew, 0, 0);
		reprise_forker_tell(forker, &renew);
	} else if (size == 0) {
		raw1(SYS_close, forker->watcher);
		forker->watcher = -1;
		reprise_service_log("error", "files are not watched any more: the process that did has ended", NULL);
	}
}

static void kill_children(const struct forker *forker)
{
	for (size_t i = 0; i < sizeof forker->children / sizeof *forker->children; i++) {
		if (forker->children[i].pid > 0) {
			raw2(SYS_kill, forker->children[i].pid, SIGKILL);
		}
	}
}

int reprise_forker_run(struct forker *forker)
{
	uint64_t orphaned_at = 0;

	while (!forker->draining || forker->alive > 0) {
		struct pollfd watched[] = {
		    {.fd = forker->signals, .events = POLLIN},
		    /* Once draining, nothing more is said to us; a closed socket would only spin the loop. */
		    {.fd = forker->draining ? -1 : forker->control, .events = POLLIN},
		    {.fd = orphaned_at ? -1 : forker->lifeline, .events = 0},
		    {.fd = forker->draining ? -1 : forker->watcher, .events = POLLIN},
		};
		struct timespec second = {.tv_sec = 1};
		long ready = raw6(SYS_ppoll, (long)watched, 4, (long)(orphaned_at ? &second : NULL), 0, RAW_SIGSET_SIZE, 0);
		if (ready < 0 && ready != -EINTR) {
			return REPRISE_EXIT_INTERNAL;
		}
		if (orphaned_at && raw_seconds() + 1 - orphaned_at > ORPHAN_SECONDS) {
			kill_children(forker);
		}
		if (watched[0].revents) {
			reap(forker);
		}
		if (watched[2].revents || (watched[1].revents && !listen_to_supervisor(forker))) {
			forker->draining = true;
			orphaned_at = raw_seconds() + 1;
		}
		if (watched[3].revents) {
			listen_to_watcher(forker);
		}
	}
	return REPRISE_EXIT_DRAINED;
}
