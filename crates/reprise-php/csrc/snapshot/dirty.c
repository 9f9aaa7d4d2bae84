/*
 * Calls that change a process without a page fault. The executable's own versions come before libc's for libphp and all
 * extensions (dlopen below takes RTLD_DEEPBIND away, with which an extension would look into its own libraries first);
 * each does what libc's does and notes what the rewind has to look at.
 *
 * What they do not see: raw system calls of libraries, and libc's calls to itself. Those are caught by other means, or
 * harmless; ARCHITECTURE.md lists them.
 *
 * Notes are taken only while a clone runs a request, in service memory.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <iconv.h>
#include <locale.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "snapshot.h"

/* MADV_GUARD_INSTALL, of Linux 6.13. */
#define GUARD_INSTALL 102

#define PUBLIC __attribute__((visibility("default")))

static bool is_watching(void)
{
	return reprise_snapshot_state && snapshot.in_request;
}

static void note(uint32_t what)
{
	if (is_watching()) {
		snapshot.dirty |= what;
	}
}

static void note_attribute(const char *call)
{
	if (is_watching()) {
		snapshot.dirty |= DIRTY_ATTRIBUTES;
		reprise_blame(call, 0);
	}
}

static long result(long value)
{
	if (value < 0) {
		errno = (int)-value;
		return -1;
	}
	return value;
}

/* libc's own function of that name. */
static void *next(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);

	if (!found) {
		abort();
	}
	return found;
}

#define NEXT(name)                                                                                                     \
	static __typeof__(name) *known;                                                                                    \
	if (!known) {                                                                                                      \
		*(void **)&known = next(#name);                                                                                \
	}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

/* Number of the first mapping of the snapshot that ends behind the address. */
static size_t mapping_behind(uintptr_t address)
{
	size_t low = 0, high = snapshot.mapping_count;

	while (low < high) {
		size_t middle = (low + high) / 2;
		if (snapshot.mappings[middle].end <= address) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low;
}

static bool touches_snapshot(uintptr_t start, uintptr_t end)
{
	size_t at = mapping_behind(start);

	return at < snapshot.mapping_count && snapshot.mappings[at].start < end;
}

static uintptr_t end_of(const void *start, size_t size)
{
	return ((uintptr_t)start + size + PAGE - 1) & ~(PAGE - 1);
}

/* A mapping that the request has made: undone after it without reading /proc/self/maps. */
static void add_fresh(uintptr_t start, uintptr_t end)
{
	if (snapshot.fresh_count == MAX_FRESH) {
		snapshot.dirty |= DIRTY_MAPPINGS;
		return;
	}
	snapshot.fresh[snapshot.fresh_count++] = (struct range){start, end};
}

static void remove_fresh(uintptr_t start, uintptr_t end)
{
	for (size_t i = 0; i < snapshot.fresh_count; i++) {
		struct range had = snapshot.fresh[i];
		if (had.start >= end || had.end <= start) {
			continue;
		}
		snapshot.fresh[i--] = snapshot.fresh[--snapshot.fresh_count];
		if (had.start < start) {
			add_fresh(had.start, start);
		}
		if (had.end > end) {
			add_fresh(end, had.end);
		}
	}
}

static void note_unmapped(uintptr_t start, uintptr_t end)
{
	if (touches_snapshot(start, end)) {
		snapshot.dirty |= DIRTY_MAPPINGS;
	}
	remove_fresh(start, end);
}

PUBLIC void *mmap(void *at, size_t size, int protection, int flags, int descriptor, off_t offset)
{
	long made = result(raw6(SYS_mmap, (long)at, (long)size, protection, flags, descriptor, offset));

	if (made != -1 && is_watching()) {
		uintptr_t start = (uintptr_t)made, end = end_of((void *)made, size);
		if (flags & MAP_FIXED) {
			note_unmapped(start, end);
		}
		add_fresh(start, end);
	}
	return (void *)made;
}

PUBLIC void *mmap64(void *at, size_t size, int protection, int flags, int descriptor, off64_t offset)
{
	return mmap(at, size, protection, flags, descriptor, offset);
}

PUBLIC int munmap(void *at, size_t size)
{
	if (is_watching()) {
		note_unmapped((uintptr_t)at, end_of(at, size));
	}
	return (int)result(raw2(SYS_munmap, at, size));
}

PUBLIC void *mremap(void *at, size_t size, size_t new_size, int flags, ...)
{
	va_list arguments;

	va_start(arguments, flags);
	void *wanted = flags & MREMAP_FIXED ? va_arg(arguments, void *) : NULL;
	va_end(arguments);
	long made = result(raw6(SYS_mremap, (long)at, (long)size, (long)new_size, flags, (long)wanted, 0));
	if (made != -1 && is_watching()) {
		uintptr_t start = (uintptr_t)made, end = end_of((void *)made, new_size);
		note_unmapped((uintptr_t)at, end_of(at, size));
		if (flags & MREMAP_FIXED) {
			note_unmapped(start, end);
		}
		add_fresh(start, end);
	}
	return (void *)made;
}

/* Making a mapping of the snapshot writable that is not rewound: it could be written and made read-only again, and
 * nothing would show it. */
static bool opens_what_is_not_rewound(uintptr_t start, uintptr_t end)
{
	for (size_t i = mapping_behind(start); i < snapshot.mapping_count && snapshot.mappings[i].start < end; i++) {
		if (snapshot.mappings[i].is_private && !(snapshot.mappings[i].protection & PROT_WRITE)) {
			return true;
		}
	}
	return false;
}

PUBLIC int mprotect(void *at, size_t size, int protection)
{
	uintptr_t start = (uintptr_t)at, end = end_of(at, size);

	if (is_watching() && touches_snapshot(start, end)) {
		snapshot.dirty |= DIRTY_MAPPINGS;
		if ((protection & PROT_WRITE) && opens_what_is_not_rewound(start, end)) {
			snapshot.dirty |= DIRTY_OPENED;
			reprise_blame("a request made read-only memory of the snapshot writable, by mprotect", start);
		}
	}
	return (int)result(raw3(SYS_mprotect, at, size, protection));
}

PUBLIC int madvise(void *at, size_t size, int advice)
{
	if (is_watching() && touches_snapshot((uintptr_t)at, end_of(at, size))) {
		snapshot.dirty |= DIRTY_MEMORY | (advice == GUARD_INSTALL ? DIRTY_GUARDS : 0);
	}
	return (int)result(raw3(SYS_madvise, at, size, advice));
}

PUBLIC int posix_madvise(void *at, size_t size, int advice)
{
	return madvise(at, size, advice) == 0 ? 0 : errno;
}

#define FORWARD_INT(flags, name, parameters, arguments)                                                                \
	PUBLIC int name parameters                                                                                         \
	{                                                                                                                  \
		NEXT(name)                                                                                                     \
		note(flags);                                                                                                   \
		return known arguments;                                                                                        \
	}

FORWARD_INT(DIRTY_MAPPINGS, brk, (void *to), (to))
FORWARD_INT(DIRTY_MAPPINGS, malloc_trim, (size_t pad), (pad))
FORWARD_INT(DIRTY_MAPPINGS, iconv_close, (iconv_t handle), (handle))
FORWARD_INT(DIRTY_MAPPINGS, pkey_mprotect, (void *at, size_t size, int protection, int key),
            (at, size, protection, key))

PUBLIC void *sbrk(intptr_t by)
{
	NEXT(sbrk)
	note(by ? DIRTY_MAPPINGS : 0);
	return known(by);
}

PUBLIC void *dlopen(const char *file, int flags)
{
	NEXT(dlopen)
	note(DIRTY_MAPPINGS);
	return known(file, flags & ~RTLD_DEEPBIND);
}

/* A library of the snapshot could not be mapped again where it was; one that the request has loaded is unmapped with
 * whatever else it has mapped. */
PUBLIC int dlclose(void *handle)
{
	NEXT(dlclose)
	return is_watching() ? 0 : known(handle);
}

PUBLIC char *setlocale(int category, const char *locale)
{
	NEXT(setlocale)
	note(locale ? DIRTY_MAPPINGS : 0);
	return known(category, locale);
}

PUBLIC locale_t newlocale(int mask, const char *locale, locale_t base)
{
	NEXT(newlocale)
	note(DIRTY_MAPPINGS);
	return known(mask, locale, base);
}

PUBLIC void freelocale(locale_t locale)
{
	NEXT(freelocale)
	note(DIRTY_MAPPINGS);
	known(locale);
}

/* ---- processes and threads ------------------------------------------------------------------------------------- */

PUBLIC pid_t fork(void)
{
	NEXT(fork)
	note(DIRTY_MEMORY);
	return known();
}

/* The child of vfork runs in its parent's memory, and its faults are counted for nobody while it lives. fork does what
 * POSIX asks of vfork. */
PUBLIC pid_t vfork(void)
{
	return fork();
}

PUBLIC int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
	NEXT(posix_spawn)
	note(DIRTY_MEMORY);
	return known(pid, path, actions, attributes, argv, envp);
}

PUBLIC int posix_spawnp(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
	NEXT(posix_spawnp)
	note(DIRTY_MEMORY);
	return known(pid, path, actions, attributes, argv, envp);
}

PUBLIC FILE *popen(const char *command, const char *mode)
{
	NEXT(popen)
	note(DIRTY_MEMORY);
	return known(command, mode);
}

FORWARD_INT(DIRTY_MEMORY | DIRTY_SIGNALS, system, (const char *command), (command))
FORWARD_INT(DIRTY_MEMORY | DIRTY_MAPPINGS, pthread_create,
            (pthread_t * thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument),
            (thread, attributes, start, argument))

/* ---- signals and timers ---------------------------------------------------------------------------------------- */

FORWARD_INT(DIRTY_SIGNALS, sigaction, (int number, const struct sigaction *action, struct sigaction *old),
            (number, action, old))
FORWARD_INT(DIRTY_SIGNALS, sigprocmask, (int how, const sigset_t *set, sigset_t *old), (how, set, old))
FORWARD_INT(DIRTY_SIGNALS, pthread_sigmask, (int how, const sigset_t *set, sigset_t *old), (how, set, old))
FORWARD_INT(DIRTY_SIGNALS, sigaltstack, (const stack_t *stack, stack_t *old), (stack, old))
FORWARD_INT(DIRTY_POSIX_TIMERS, timer_create, (clockid_t clock, struct sigevent *event, timer_t *timer),
            (clock, event, timer))

/* Which timers run: zend arms one for each request, and disarms it. */
static void note_timer(int which, const struct itimerval *value)
{
	if (is_watching() && value && which >= 0 && which < 3) {
		bool runs = value->it_value.tv_sec || value->it_value.tv_usec;
		snapshot.timers = runs ? snapshot.timers | 1u << which : snapshot.timers & ~(1u << which);
	}
}

PUBLIC int setitimer(__itimer_which_t which, const struct itimerval *value, struct itimerval *old)
{
	note_timer((int)which, value);
	return (int)result(raw3(SYS_setitimer, which, value, old));
}

PUBLIC unsigned alarm(unsigned seconds)
{
	struct itimerval value = {.it_value = {.tv_sec = seconds}}, old = {0};

	note_timer(ITIMER_REAL, &value);
	raw3(SYS_setitimer, ITIMER_REAL, &value, &old);
	return (unsigned)old.it_value.tv_sec + (old.it_value.tv_usec ? 1 : 0);
}

PUBLIC sighandler_t signal(int number, sighandler_t handler)
{
	NEXT(signal)
	note(DIRTY_SIGNALS);
	return known(number, handler);
}

/* ---- what cannot be put back ----------------------------------------------------------------------------------- */

#define ATTRIBUTE(name, parameters, arguments)      \
	PUBLIC int name parameters                      \
	{                                               \
		NEXT(name)                                  \
		note_attribute("a request called " #name); \
		return known arguments;                     \
	}

ATTRIBUTE(setuid, (uid_t user), (user))
ATTRIBUTE(seteuid, (uid_t user), (user))
ATTRIBUTE(setgid, (gid_t group), (group))
ATTRIBUTE(setegid, (gid_t group), (group))
ATTRIBUTE(setresuid, (uid_t real, uid_t effective, uid_t saved), (real, effective, saved))
ATTRIBUTE(setresgid, (gid_t real, gid_t effective, gid_t saved), (real, effective, saved))
ATTRIBUTE(setgroups, (size_t count, const gid_t *groups), (count, groups))
ATTRIBUTE(setpgid, (pid_t pid, pid_t group), (pid, group))
ATTRIBUTE(setsid, (void), ())
ATTRIBUTE(nice, (int by), (by))
ATTRIBUTE(unshare, (int flags), (flags))
ATTRIBUTE(setns, (int descriptor, int kind), (descriptor, kind))
ATTRIBUTE(chroot, (const char *path), (path))
ATTRIBUTE(sched_setaffinity, (pid_t pid, size_t size, const cpu_set_t *set), (pid, size, set))
ATTRIBUTE(sched_setscheduler, (pid_t pid, int policy, const struct sched_param *parameter),
            (pid, policy, parameter))
ATTRIBUTE(setrlimit, (__rlimit_resource_t what, const struct rlimit *limit), (what, limit))
ATTRIBUTE(setrlimit64, (__rlimit_resource_t what, const struct rlimit64 *limit), (what, limit))
ATTRIBUTE(setpriority, (__priority_which_t which, id_t who, int priority), (which, who, priority))

PUBLIC int prctl(int option, ...)
{
	unsigned long a[4];
	va_list arguments;

	va_start(arguments, option);
	for (size_t i = 0; i < 4; i++) {
		a[i] = va_arg(arguments, unsigned long);
	}
	va_end(arguments);
	/* Names of the process and of its memory are all that harmless libraries set. */
	if (option != PR_SET_NAME && option != PR_SET_VMA && option != PR_GET_NAME && option != PR_GET_DUMPABLE) {
		note_attribute("a request called prctl");
	}
	return (int)result(raw6(SYS_prctl, option, (long)a[0], (long)a[1], (long)a[2], (long)a[3], 0));
}

/* ---- descriptors ----------------------------------------------------------------------------------------------- */

/* Descriptors of the worker are out of reach; those of the snapshot are put back. True if it is the worker's. */
static bool is_out_of_reach(int number)
{
	if (!is_watching()) {
		return false;
	}
	for (size_t i = 0; i < snapshot.owned_count; i++) {
		if (number == snapshot.owned[i].number) {
			snapshot.dirty |= DIRTY_OWNED;
			return false;
		}
	}
	return number >= SERVICE_FD && reprise_is_known_descriptor(number);
}

PUBLIC int close(int number)
{
	return is_out_of_reach(number) ? (int)result(-EBADF) : (int)result(raw1(SYS_close, number));
}

PUBLIC int dup2(int from, int to)
{
	if (is_out_of_reach(to)) {
		return (int)result(-EBADF);
	}
	/* Where there is no dup2, dup3 does the same but for equal numbers. */
	return from == to ? (fcntl(from, F_GETFD) < 0 ? -1 : to) : (int)result(raw3(SYS_dup3, from, to, 0));
}

PUBLIC int dup3(int from, int to, int flags)
{
	return is_out_of_reach(to) ? (int)result(-EBADF) : (int)result(raw3(SYS_dup3, from, to, flags));
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
		return (int)result(raw3(SYS_close_range, first, last, flags));
	}
	snapshot.dirty |= DIRTY_OWNED;
	if (last >= SERVICE_FD) {
		last = SERVICE_FD - 1;
	}
	return first > last ? 0 : (int)result(raw3(SYS_close_range, first, last, flags));
}

PUBLIC void closefrom(int first)
{
	(void)close_range((unsigned)first, ~0u, 0);
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
		/* It writes past all protection, from the kernel. */
		if (reprise_snapshot_state && snapshot.is_taken) {
			return result(-ENOSYS);
		}
		break;
	case SYS_mmap:
	case SYS_munmap:
	case SYS_mremap:
	case SYS_mprotect:
	case SYS_madvise:
	case SYS_brk:
	case SYS_clone:
	case SYS_clone3: note(DIRTY_MAPPINGS | DIRTY_MEMORY); break;
	case SYS_rt_sigaction:
	case SYS_rt_sigprocmask:
	case SYS_sigaltstack:
	case SYS_setitimer:
		note(DIRTY_SIGNALS);
		if (is_watching()) {
			snapshot.timers = 7;
		}
		break;
	case SYS_close:
	case SYS_dup3:
		if (is_out_of_reach((int)a[number == SYS_close ? 0 : 1])) {
			return result(-EBADF);
		}
		break;
	case SYS_close_range: return close_range((unsigned)a[0], (unsigned)a[1], (int)a[2]);
	case SYS_timer_create: note(DIRTY_POSIX_TIMERS); break;
	case SYS_setuid:
	case SYS_setgid:
	case SYS_setresuid:
	case SYS_setresgid:
	case SYS_prctl:
	case SYS_prlimit64:
	case SYS_unshare: note_attribute("a request changed users, limits or namespaces by a raw system call"); break;
	default: break;
	}
	return result(raw6(number, a[0], a[1], a[2], a[3], a[4], a[5]));
}
