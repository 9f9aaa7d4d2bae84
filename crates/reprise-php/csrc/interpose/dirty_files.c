/* Calls that close or replace descriptors, and raw system calls: see dirty.h. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../core/forker_state.h"
#include "../core/raw.h"
#include "dirty.h"
#include "interpose.h"
#include "../core/snapshot_state.h"
#include "../core/options.h"
#include "../core/connections_state.h"
#include "../core/data_state.h"
#include "traffic.h"
#include "../core/worker_state.h"

void interpose_files(void)
{
}

static bool is_service_descriptor(int number)
{
	const struct forker *forker = reprise_forker;
	const int known[] = {forker->lifeline,
	                     reprise_options.phar,
	                     snapshot->watch.descriptor,
	                     snapshot->kernel.pagemap,
	                     snapshot->kernel.statm,
	                     snapshot->kernel.task_directory,
	                     snapshot->kernel.descriptor_directory,
	                     snapshot->kernel.working_directory,
	                     reprise_data->door > 0 ? reprise_data->door : -1};

	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		if (number == known[i]) {
			return true;
		}
	}
	for (size_t i = 0; i < ipc_MAX_DOORS; i++) {
		if (number == forker->eventfds[i]) {
			return true;
		}
	}
	return false;
}

bool interpose_is_known_descriptor(int number)
{
	for (size_t i = 0; i < snapshot->kernel.owned_count; i++) {
		if (number == snapshot->kernel.owned[i].number || number == snapshot->kernel.owned_copies[i]) {
			return true;
		}
	}
	return interpose_is_kept(number) || is_service_descriptor(number);
}

#ifndef __SANITIZE_ADDRESS__

/* True: the descriptor is the worker's own, and the request may not change it. A descriptor of the snapshot is put back
 * after the request. */
static bool is_out_of_reach(int number)
{
	if (!is_watching()) {
		return false;
	}
	for (size_t i = 0; i < snapshot->kernel.owned_count; i++) {
		if (number == snapshot->kernel.owned[i].number) {
			snapshot->notes.dirty |= DIRTY_OWNED;
			return false;
		}
	}
	return number >= ipc_SERVICE_DESCRIPTOR && interpose_is_known_descriptor(number);
}

PUBLIC int close(int number)
{
	if (is_watching() && interpose_is_kept(number)) {
		if (snapshot->connections.is_holding) {
			return 0;
		}
		snapshot->connections.is_touched = true;
	}
	return is_out_of_reach(number) ? (int)result(-EBADF) : (int)result(RAW1(SYS_close, number));
}

PUBLIC int dup2(int from, int to)
{
	if (is_out_of_reach(to)) {
		return (int)result(-EBADF);
	}
	/* arm64 has no dup2. dup3 does the same, except for equal numbers. */
	return from == to ? (fcntl(from, F_GETFD) < 0 ? -1 : to) : (int)result(RAW3(SYS_dup3, from, to, 0));
}

PUBLIC int dup3(int from, int to, int flags)
{
	return is_out_of_reach(to) ? (int)result(-EBADF) : (int)result(RAW3(SYS_dup3, from, to, flags));
}

PUBLIC int fclose(FILE *file)
{
	NEXT(fclose)
	(void)is_out_of_reach(fileno(file));
	return known(file);
}

PUBLIC int close_range(unsigned first, unsigned last, int flags)
{
	if (!is_watching()) {
		return (int)result(RAW3(SYS_close_range, first, last, flags));
	}
	snapshot->notes.dirty |= DIRTY_OWNED;
	if (last >= ipc_SERVICE_DESCRIPTOR) {
		last = ipc_SERVICE_DESCRIPTOR - 1;
	}
	return first > last ? 0 : (int)result(RAW3(SYS_close_range, first, last, flags));
}

PUBLIC void closefrom(int first)
{
	(void)close_range((unsigned)first, ~0u, 0);
}

/* ---- the working directory ------------------------------------------------------------------------------------- */

static void note_directory(void)
{
	if (reprise_worker) {
		reprise_worker->directory_calls++;
	}
}

PUBLIC int chdir(const char *path)
{
	note_directory();
	return (int)result(RAW1(SYS_chdir, path));
}

PUBLIC int fchdir(int directory)
{
	note_directory();
	return (int)result(RAW1(SYS_fchdir, directory));
}

/* ---- raw system calls ------------------------------------------------------------------------------------------ */

PUBLIC long syscall(long number, ...)
{
	long a[6];
	va_list arguments;

	va_start(arguments, number);
	for (size_t i = 0; i < 6; i++) {
		a[i] = va_arg(arguments, long);
	}
	va_end(arguments);
	switch (number) {
	case SYS_io_uring_setup:
		/* The kernel writes for it, past all write protection. */
		if (snapshot && snapshot->image.is_taken) {
			return result(-ENOSYS);
		}
		break;
	case SYS_process_madvise:
	case SYS_pkey_mprotect:
	case SYS_shmdt:
	case SYS_mmap:
	case SYS_munmap:
	case SYS_mremap:
	case SYS_mprotect:
	case SYS_brk:
	case SYS_clone:
	case SYS_clone3: note(DIRTY_MAPPINGS | DIRTY_MEMORY | DIRTY_FORKED); break;
	case SYS_rt_sigaction:
	case SYS_rt_sigprocmask:
	case SYS_sigaltstack:
	case SYS_setitimer:
		note(DIRTY_SIGNALS);
		if (takes_notes()) {
			snapshot->notes.timers = REPRISE_ALL_TIMERS;
		}
		break;
	case SYS_chdir:
	case SYS_fchdir: note_directory(); break;
	case SYS_madvise: return madvise((void *)a[0], (size_t)a[1], (int)a[2]);
	case SYS_close:
	case SYS_dup3:
		if (is_out_of_reach((int)a[number == SYS_close ? 0 : 1])) {
			return result(-EBADF);
		}
		break;
	case SYS_close_range: return close_range((unsigned)a[0], (unsigned)a[1], (int)a[2]);
	case SYS_timer_create: note(DIRTY_POSIX_TIMERS); break;
	case SYS_prlimit64:
	case SYS_personality:
		if (number == SYS_prlimit64 ? a[2] != 0 : a[0] != 0xffffffff) {
			note_attribute("a request changed limits or its personality by a raw system call");
		}
		break;
	case SYS_fcntl:
		if (a[1] == F_SETFL && !interpose_may_set_flags((int)a[0], a[2])) {
			return result(-EPERM);
		}
		break;
	case SYS_ioctl:
		if (!interpose_may_control((int)a[0], a[1])) {
			return result(-EPERM);
		}
		break;
	case SYS_openat: return interpose_note_opened((int)result(RAW4(number, a[0], a[1], a[2], a[3])), (int)a[2]);
#ifdef SYS_open
	case SYS_open: return interpose_note_opened((int)result(RAW3(number, a[0], a[1], a[2])), (int)a[1]);
#endif
	case SYS_setreuid:
	case SYS_setregid:
	case SYS_setfsuid:
	case SYS_setfsgid:
	case SYS_setgroups:
	case SYS_setns:
	case SYS_chroot:
	case SYS_setrlimit:
	case SYS_setpriority:
	case SYS_ioprio_set:
	case SYS_mlockall:
	case SYS_sched_setparam:
	case SYS_sched_setattr:
	case SYS_setsid:
	case SYS_setpgid:
	case SYS_sched_setaffinity:
	case SYS_sched_setscheduler:
	case SYS_setuid:
	case SYS_setgid:
	case SYS_setresuid:
	case SYS_setresgid:
	case SYS_prctl:
	case SYS_unshare: note_attribute("a request changed users, limits or namespaces by a raw system call"); break;
	default: interpose_note_raw_call(number, a[0]); break;
	}
	return result(raw6(number, a[0], a[1], a[2], a[3], a[4], a[5]));
}

#endif
