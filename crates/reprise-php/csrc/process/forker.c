/* See forker.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../data/data.h"
#include "forker.h"
#include "forker_children.h"
#include "../core/log.h"
#include "../core/options.h"
#include "profile.h"
#include "../core/raw.h"
#include "trace.h"
#include "../interpose/uploads.h"
#include "ipc.h"
#include "../core/descriptors.h"
#include "../core/forker_link.h"
#include "../core/forker_state.h"

/* How long workers may go on after the supervisor's death: a little longer than the front. */
#define ORPHAN_SECONDS (ipc_LAST_DRAIN_SECONDS + 5)

int process_forker_start(struct forker *forker)
{
	uint64_t watched = UINT64_C(1) << (SIGCHLD - 1);
	struct raw_sigaction normal = {0};

	/* If SIGCHLD were ignored, the kernel would reap children before the forker reports them. */
	RAW4(SYS_rt_sigaction, SIGCHLD, &normal, NULL, RAW_SIGSET_SIZE);
	long error = RAW4(SYS_rt_sigprocmask, SIG_BLOCK, &watched, NULL, RAW_SIGSET_SIZE);
	if (error < 0) {
		return (int)error;
	}
	long signals = RAW4(SYS_signalfd4, -1, &watched, RAW_SIGSET_SIZE, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals < 0) {
		return (int)signals;
	}
	forker->signals = reprise_lift((int)signals);
	return 0;
}

static void forget_slab(struct forker *forker)
{
	if (forker->slab < 0) {
		return;
	}
	RAW1(SYS_close, forker->slab);
	for (uint32_t i = 0; i < ipc_MAX_DOORS; i++) {
		if (forker->eventfds[i] >= 0) {
			RAW1(SYS_close, forker->eventfds[i]);
		}
	}
	forker->slab = -1;
}

/* Workers forked from now on use this slab: descriptors are the slab and one eventfd per front thread. */
static void take_slab(struct forker *forker, const struct ipc_ToForker *what, const int *descriptors, size_t count)
{
	forget_slab(forker);
	forker->slab = reprise_lift(descriptors[0]);
	forker->geometry = what->slab.geometry;
	forker->epoch = what->slab.epoch;
	for (uint32_t i = 0; i < ipc_MAX_DOORS; i++) {
		forker->eventfds[i] = i + 1 < count ? reprise_lift(descriptors[i + 1]) : -1;
	}
}

static void offer_place(const struct forker *forker)
{
	if (forker->methods->place_is_free) {
		forker->methods->place_is_free(forker->place);
	}
}

static void spawn(struct forker *forker, uint32_t slot, uint64_t epoch)
{
	struct forker_child *entry = process_child_find(forker, 0);
	uint64_t before = raw_processor_ns();
	long pid;

	if (forker->slab < 0 || epoch != forker->epoch || slot >= ipc_MAX_SLOTS || forker->draining) {
		pid = -ESTALE;
	} else if (!entry) {
		pid = -ENOBUFS;
	} else {
		pid = forker->methods->fork_worker(forker, slot);
	}
	struct ipc_FromForker answer = {
	    .tag = ipc_FromForker_NotSpawned,
	    .not_spawned = {.slot = slot, .error = (int32_t)-pid, .epoch = epoch},
	};
	if (pid >= 0) {
		struct forker_child child = {
		    .pid = (pid_t)pid,
		    .slot = slot,
		    .epoch = epoch,
		    .place = forker->place,
		    .fork_ns = raw_processor_ns() - before,
		};
		process_child_note(forker, entry, child);
		offer_place(forker);
		answer = (struct ipc_FromForker){
		    .tag = ipc_FromForker_Spawned,
		    .spawned = {.slot = slot, .pid = (int32_t)pid, .epoch = epoch},
		};
	}
	reprise_forker_tell(forker, &answer);
}

static void boot(struct forker *forker, uint32_t lane, enum ipc_Isolation isolation, const int *descriptors)
{
	struct forker_child *entry = process_child_find(forker, 0);
	int control = reprise_lift(descriptors[0]), head = reprise_lift(descriptors[1]);
	long pid = -EINVAL;

	if (forker->draining) {
		pid = -ESTALE;
	} else if (!entry) {
		pid = -ENOBUFS;
	} else if (forker->methods->fork_template && lane > 0) {
		pid = forker->methods->fork_template(forker, isolation, control, head);
	}
	RAW1(SYS_close, control);
	RAW1(SYS_close, head);
	struct ipc_FromForker answer = {
	    .tag = ipc_FromForker_TemplateNotSpawned,
	    .template_not_spawned = {.lane = lane, .error = (int32_t)-pid},
	};
	if (pid >= 0) {
		process_child_note(forker, entry, (struct forker_child){.pid = (pid_t)pid, .is_template = true, .lane = lane});
		answer = (struct ipc_FromForker){
		    .tag = ipc_FromForker_TemplateSpawned,
		    .template_spawned = {.lane = lane, .pid = (int32_t)pid},
		};
	}
	reprise_forker_tell(forker, &answer);
}

static uint32_t microseconds(const struct forker_child *child, const struct rusage *used)
{
	uint64_t seconds = (uint64_t)used->ru_utime.tv_sec + (uint64_t)used->ru_stime.tv_sec;
	uint64_t rest = (uint64_t)used->ru_utime.tv_usec + (uint64_t)used->ru_stime.tv_usec;
	uint64_t all = seconds * 1000000 + rest + child->fork_ns / 1000;

	return all < UINT32_MAX ? (uint32_t)all : UINT32_MAX;
}

static void report_death(struct forker *forker, const struct forker_child *child, int status, const struct rusage *used)
{
	struct ipc_FromForker dead = {
	    .tag = ipc_FromForker_Dead,
	    .dead =
	        {
	            .slot = child->slot,
	            .pid = child->pid,
	            .status = status,
	            .epoch = child->epoch,
	            .processor_us = microseconds(child, used),
	        },
	};

	if (child->is_template) {
		dead = (struct ipc_FromForker){
		    .tag = ipc_FromForker_TemplateDead,
		    .template_dead = {.lane = child->lane, .pid = child->pid, .status = status},
		};
	}
	reprise_forker_tell(forker, &dead);
}

static void reap(struct forker *forker)
{
	struct signalfd_siginfo info;
	struct rusage used = {0};
	int status;
	long pid;

	/* One signal may stand for several children. */
	while (RAW3(SYS_read, forker->signals, &info, sizeof info) == sizeof info) {
	}
	while ((pid = RAW4(SYS_wait4, -1, &status, WNOHANG, &used)) > 0) {
		struct forker_child *entry = process_child_find(forker, (pid_t)pid);
		data_reaped((pid_t)pid);
		interpose_uploads_reaped((pid_t)pid);
		if (entry) {
			report_death(forker, entry, status, &used);
			process_child_forget(forker, entry);
			if (entry->epoch != forker->epoch) {
				/* Its successor has been there for long. */
				offer_place(forker);
			}
		}
	}
}

static void close_all(const int *descriptors, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		RAW1(SYS_close, descriptors[i]);
	}
}

static void obey(struct forker *forker, const struct ipc_ToForker *what, const int *descriptors, size_t count)
{
	static const struct ipc_FromForker pong = {.tag = ipc_FromForker_Pong};

	switch (what->tag) {
	case ipc_ToForker_Slab:
		if (count > 0) {
			take_slab(forker, what, descriptors, count);
			return;
		}
		break;
	case ipc_ToForker_Boot:
		if (count == 2) {
			boot(forker, what->boot.lane, what->boot.isolation, descriptors);
			return;
		}
		break;
	case ipc_ToForker_Spawn: spawn(forker, what->spawn.slot, what->spawn.epoch); break;
	case ipc_ToForker_Trace: process_forker_trace(forker, what->trace.pid); break;
	case ipc_ToForker_Profile:
		if (count == 1) {
			process_profile_begin(forker, what, descriptors[0]);
			return;
		}
		break;
	case ipc_ToForker_DataQuestion:
		if (count == 2 && forker->methods->answer) {
			forker->methods->answer(forker, descriptors[0], descriptors[1]);
			return;
		}
		break;
	case ipc_ToForker_Ping:
		forker->methods->tell(forker);
		reprise_forker_tell(forker, &pong);
		break;
	case ipc_ToForker_Drain: forker->draining = true; break;
	}
	close_all(descriptors, count);
}

/* Reads one packet. False when the supervisor has closed its end. */
static bool listen_to_supervisor(struct forker *forker)
{
	struct ipc_ToForker what;
	/* One byte more than a packet may have: a packet that is too long is recognised. */
	uint8_t bytes[ipc_MAX_PACKET + 1];
	int descriptors[ipc_MAX_DOORS + 1];
	_Alignas(struct cmsghdr) char space[CMSG_SPACE(sizeof descriptors)];
	struct iovec part = {bytes, sizeof bytes};
	struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
	long size = RAW3(SYS_recvmsg, forker->control, &packet, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
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
	if (!ipc_read_message(bytes, (size_t)size, &what)) {
		reprise_service_log("error", "the supervisor sent an invalid control message", NULL);
		close_all(descriptors, count);
		return true;
	}
	obey(forker, &what, descriptors, count);
	return true;
}

/* Files have changed: this generation runs the old ones. */
static void listen_to_watcher(struct forker *forker)
{
	char byte;
	long size = RAW3(SYS_read, forker->watcher, &byte, 1);

	if (size == 1) {
		static const struct ipc_FromForker changed = {.tag = ipc_FromForker_FilesChanged};
		reprise_forker_tell(forker, &changed);
	} else if (size == 0) {
		RAW1(SYS_close, forker->watcher);
		forker->watcher = -1;
		reprise_service_log("error", "changed files are not noticed any more: the watcher process has ended", NULL);
	}
}

int process_forker_run(struct forker *forker)
{
	uint64_t orphaned_at = 0;

	while (!forker->draining || forker->alive > 0) {
		struct pollfd watched[] = {
		    {.fd = forker->signals, .events = POLLIN},
		    /* A draining forker gets no more messages, and a closed socket would be ready in every turn. */
		    {.fd = forker->draining ? -1 : forker->control, .events = POLLIN},
		    {.fd = orphaned_at ? -1 : forker->lifeline, .events = 0},
		    {.fd = forker->draining ? -1 : forker->watcher, .events = POLLIN},
		};
		struct timespec second = {.tv_sec = 1}, until_look;
		bool has_profile = process_profile_wait(forker, &until_look);
		const struct timespec *wait = orphaned_at ? &second : has_profile ? &until_look : NULL;
		long ready = raw6(SYS_ppoll, (long)watched, 4, (long)wait, 0, RAW_SIGSET_SIZE, 0);
		if (ready < 0 && ready != -EINTR) {
			return ipc_Exit_Internal;
		}
		process_profile_turn(forker);
		if (orphaned_at && raw_seconds() + 1 - orphaned_at > ORPHAN_SECONDS) {
			process_children_kill(forker);
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
	return ipc_Exit_Success;
}
