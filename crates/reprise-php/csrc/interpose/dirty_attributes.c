/*
 * Attributes of a process that a request can change: priorities, limits, its name, files of /proc/self; and the flags
 * of descriptors 0 to 2, which all processes of a generation share. See dirty.h.
 *
 * A file of /proc that is opened for writing is recognised by its file system, when it is open. So no link and no
 * directory hides it. Calls by a library's handle (random_libc.c) are not seen here. After a request with such calls,
 * all attributes that the kernel tells are compared.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "../core/pinned.h"
#include "../core/raw.h"
#include "../core/worker_state.h"
#include "dirty.h"
#include "interpose.h"

#define PROC_FILES 0x9fa0
#define LIMITS 16

/* Noted in each worker when it starts. No request changes it. */
static struct {
	long persona, priority, io_priority, slack;
	struct rlimit limits[LIMITS];
	char name[16];
	int flags[3];
} began;

static void ask(long *persona, long *priority, long *io_priority, long *slack)
{
	*persona = RAW1(SYS_personality, 0xffffffff);
	*priority = RAW2(SYS_getpriority, PRIO_PROCESS, 0);
	*io_priority = RAW2(SYS_ioprio_get, 1, 0);
	*slack = RAW1(SYS_prctl, PR_GET_TIMERSLACK);
}

void interpose_attributes_start(void)
{
	ask(&began.persona, &began.priority, &began.io_priority, &began.slack);
	for (int i = 0; i < LIMITS; i++) {
		RAW4(SYS_prlimit64, 0, i, NULL, &began.limits[i]);
	}
	RAW2(SYS_prctl, PR_GET_NAME, began.name);
	for (int i = 0; i < 3; i++) {
		began.flags[i] = (int)RAW3(SYS_fcntl, i, F_GETFL, 0);
	}
}

bool interpose_attributes_are_right(void)
{
	long persona, priority, io_priority, slack;
	char name[16] = "";
	bool same;

	ask(&persona, &priority, &io_priority, &slack);
	same = persona == began.persona && priority == began.priority && io_priority == began.io_priority
	       && slack == began.slack;
	for (int i = 0; i < LIMITS; i++) {
		struct rlimit now = {0};
		RAW4(SYS_prlimit64, 0, i, NULL, &now);
		same = same && now.rlim_cur == began.limits[i].rlim_cur && now.rlim_max == began.limits[i].rlim_max;
	}
	RAW2(SYS_prctl, PR_GET_NAME, name);
	for (size_t i = 0; i < sizeof name; i++) {
		same = same && name[i] == began.name[i];
	}
	/* Other processes share them, so they are put back even if this process ends. */
	for (int i = 0; i < 3; i++) {
		if (began.flags[i] >= 0 && (int)RAW3(SYS_fcntl, i, F_GETFL, 0) != began.flags[i]) {
			RAW3(SYS_fcntl, i, F_SETFL, began.flags[i]);
		}
	}
	return same;
}

#ifndef __SANITIZE_ADDRESS__

/* ---- /proc ----------------------------------------------------------------------------------------------------- */

static bool is_named(int number, const char *name)
{
	char path[32], target[64] = "";

	snprintf(path, sizeof path, "/proc/self/fd/%d", number);
	size_t size = readlink(path, target, sizeof target - 1) > 0 ? strlen(target) : 0;
	return size > strlen(name) && strcmp(target + size - strlen(name), name) == 0;
}

/* The priority of a session, to which all processes of a server may belong. A user may lower it, and not raise it
 * again. */
static int refuse_autogroup(int number)
{
	RAW1(SYS_close, number);
	errno = EACCES;
	return -1;
}

static int opened(int number, int flags)
{
	struct statfs about;
	int error = errno;

	if (number >= 0 && (flags & O_ACCMODE) != O_RDONLY && !(flags & O_PATH) && takes_notes()
	    && RAW2(SYS_fstatfs, number, &about) >= 0 && about.f_type == PROC_FILES) {
		if (is_named(number, "/autogroup")) {
			return refuse_autogroup(number);
		}
		/* The rewind looks at memory after each request. */
		if (is_named(number, "/mem")) {
			return number;
		}
		note_attribute("a request opened a file of /proc for writing");
	}
	errno = error;
	return number;
}

int interpose_note_opened(int number, int flags)
{
	return opened(number, flags);
}

#define TAKE_MODE(mode, flags)                                                                                         \
	unsigned mode = 0;                                                                                                 \
	if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE) {                                                       \
		va_list arguments;                                                                                             \
		va_start(arguments, flags);                                                                                    \
		mode = va_arg(arguments, unsigned);                                                                            \
		va_end(arguments);                                                                                             \
	}

PUBLIC int stat(const char *restrict path, struct stat *restrict about)
{
	NEXT(stat)
	return known(reprise_pinned_stat(path), about);
}

PUBLIC int open(const char *path, int flags, ...)
{
	NEXT(open)
	TAKE_MODE(mode, flags)
	return opened(known(reprise_pinned(path, flags), flags, mode), flags);
}

PUBLIC int open64(const char *path, int flags, ...)
{
	NEXT(open64)
	TAKE_MODE(mode, flags)
	return opened(known(reprise_pinned(path, flags), flags, mode), flags);
}

PUBLIC int openat(int directory, const char *path, int flags, ...)
{
	NEXT(openat)
	TAKE_MODE(mode, flags)
	return opened(known(directory, reprise_pinned(path, flags), flags, mode), flags);
}

PUBLIC int openat64(int directory, const char *path, int flags, ...)
{
	NEXT(openat64)
	TAKE_MODE(mode, flags)
	return opened(known(directory, reprise_pinned(path, flags), flags, mode), flags);
}

static FILE *opened_file(FILE *file, const char *mode)
{
	if (file && (*mode != 'r' || strchr(mode, '+')) && opened(fileno(file), O_RDWR) < 0) {
		/* The descriptor is closed, and its stream is not. */
		fclose(file);
		errno = EACCES;
		return NULL;
	}
	return file;
}

PUBLIC FILE *fopen(const char *path, const char *mode)
{
	NEXT(fopen)
	return opened_file(known(path, mode), mode);
}

PUBLIC FILE *fopen64(const char *path, const char *mode)
{
	NEXT(fopen64)
	return opened_file(known(path, mode), mode);
}

/* ---- descriptors 0 to 2 ---------------------------------------------------------------------------------------- */

/* True: the descriptor is one of them, or may be a copy of one. They are /dev/null and the pipes to the server's log.
 * The application's user may not open these, so all workers share these descriptors and their flags. No request may
 * change the flags. */
static bool is_shared(int number)
{
	struct stat about, standard;

	if (!reprise_worker || number < 0) {
		return false;
	}
	if (number <= 2) {
		return true;
	}
	if (RAW2(SYS_fstat, number, &about) < 0 || !(S_ISFIFO(about.st_mode) || S_ISCHR(about.st_mode))) {
		return false;
	}
	for (int i = 0; i < 3; i++) {
		if (RAW2(SYS_fstat, i, &standard) >= 0 && about.st_ino == standard.st_ino && about.st_dev == standard.st_dev) {
			return true;
		}
	}
	return false;
}

bool interpose_may_control(int number, long request)
{
	return (request != FIONBIO && request != FIOASYNC) || !is_shared(number);
}

bool interpose_may_set_flags(int number, long flags)
{
	const long kept = O_NONBLOCK | O_APPEND | O_ASYNC | O_DIRECT;

	return !is_shared(number) || ((RAW3(SYS_fcntl, number, F_GETFL, 0) ^ flags) & kept) == 0;
}

static int control(int number, int command, long argument)
{
	if (command == F_SETFL && !interpose_may_set_flags(number, argument)) {
		return (int)result(-EPERM);
	}
	return (int)result(RAW3(SYS_fcntl, number, command, argument));
}

PUBLIC int fcntl(int number, int command, ...)
{
	va_list arguments;

	va_start(arguments, command);
	long argument = va_arg(arguments, long);
	va_end(arguments);
	return control(number, command, argument);
}

PUBLIC int fcntl64(int number, int command, ...)
{
	va_list arguments;

	va_start(arguments, command);
	long argument = va_arg(arguments, long);
	va_end(arguments);
	return control(number, command, argument);
}

PUBLIC int ioctl(int number, unsigned long request, ...)
{
	va_list arguments;

	va_start(arguments, request);
	long argument = va_arg(arguments, long);
	va_end(arguments);
	if (!interpose_may_control(number, (long)request)) {
		return (int)result(-EPERM);
	}
	return (int)result(RAW3(SYS_ioctl, number, request, argument));
}

/* ---- the rest -------------------------------------------------------------------------------------------------- */

PUBLIC int personality(unsigned long persona)
{
	if (persona != 0xffffffff) {
		note_attribute("a request called personality");
	}
	return (int)result(RAW1(SYS_personality, persona));
}

PUBLIC int prlimit64(pid_t pid, __rlimit_resource_t what, const struct rlimit64 *limit, struct rlimit64 *old)
{
	if (limit) {
		note_attribute("a request called prlimit");
	}
	return (int)result(RAW4(SYS_prlimit64, pid, what, limit, old));
}

PUBLIC int prlimit(pid_t pid, __rlimit_resource_t what, const struct rlimit *limit, struct rlimit *old)
{
	return prlimit64(pid, what, (const struct rlimit64 *)limit, (struct rlimit64 *)old);
}

PUBLIC int pthread_setname_np(pthread_t thread, const char *name)
{
	NEXT(pthread_setname_np)
	if (thread == pthread_self() && RAW0(SYS_gettid) == RAW0(SYS_getpid)) {
		note_attribute("a request named the process");
	}
	return known(thread, name);
}

#endif
