/* Calls that change the process, or make others: see dirty.h. */
#define _GNU_SOURCE
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "../core/data_state.h"
#include "../core/raw.h"
#include "dirty.h"
#include "interpose.h"
#include "../core/snapshot_state.h"
#include "../core/fork_hooks.h"

void interpose_process(void)
{
}

#ifndef __SANITIZE_ADDRESS__

PUBLIC pid_t fork(void)
{
	NEXT(fork)
	note(DIRTY_MEMORY | DIRTY_FORKED);
	/* A child goes on with the values of the data cache that its parent has. */
	const struct fork_hooks *hooks = reprise_fork_hooks;
	uint32_t place = hooks ? hooks->before() : 0;
	pid_t child = known();
	if (hooks && child == 0) {
		hooks->in_child(place);
	} else if (hooks) {
		hooks->after(place, child);
	}
	return child;
}

/* The child of vfork runs in the memory of its parent, and its page faults are not counted while it lives. fork does
 * what POSIX asks of vfork. */
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

/* Calls that only ask change nothing. */
FORWARD_INT(action ? DIRTY_SIGNALS : 0, sigaction, (int number, const struct sigaction *action, struct sigaction *old),
            (number, action, old))
FORWARD_INT(set ? DIRTY_SIGNALS : 0, sigprocmask, (int how, const sigset_t *set, sigset_t *old), (how, set, old))
FORWARD_INT(set ? DIRTY_SIGNALS : 0, pthread_sigmask, (int how, const sigset_t *set, sigset_t *old), (how, set, old))
FORWARD_INT(stack ? DIRTY_SIGNALS : 0, sigaltstack, (const stack_t *stack, stack_t *old), (stack, old))
FORWARD_INT(DIRTY_POSIX_TIMERS, timer_create, (clockid_t clock, struct sigevent *event, timer_t *timer),
            (clock, event, timer))

/* Which timers run. PHP starts one for each request, and stops it. */
static void note_timer(int which, const struct itimerval *value)
{
	if (takes_notes() && value && which >= 0 && REPRISE_ALL_TIMERS >> which) {
		bool runs = value->it_value.tv_sec || value->it_value.tv_usec;
		snapshot->notes.timers = runs ? snapshot->notes.timers | 1u << which : snapshot->notes.timers & ~(1u << which);
	}
}

PUBLIC int setitimer(__itimer_which_t which, const struct itimerval *value, struct itimerval *old)
{
	note_timer((int)which, value);
	return (int)result(RAW3(SYS_setitimer, which, value, old));
}

PUBLIC unsigned alarm(unsigned seconds)
{
	struct itimerval value = {.it_value = {.tv_sec = seconds}}, old = {0};

	note_timer(ITIMER_REAL, &value);
	RAW3(SYS_setitimer, ITIMER_REAL, &value, &old);
	return (unsigned)old.it_value.tv_sec + (old.it_value.tv_usec ? 1 : 0);
}

PUBLIC useconds_t ualarm(useconds_t first, useconds_t interval)
{
	NEXT(ualarm)
	if (takes_notes()) {
		snapshot->notes.timers |= 1u << ITIMER_REAL;
	}
	return known(first, interval);
}

PUBLIC sighandler_t signal(int number, sighandler_t handler)
{
	NEXT(signal)
	note(DIRTY_SIGNALS);
	return known(number, handler);
}

/* ---- what cannot be put back ----------------------------------------------------------------------------------- */

ATTRIBUTE(setuid, (uid_t user), (user))
ATTRIBUTE(seteuid, (uid_t user), (user))
ATTRIBUTE(setgid, (gid_t group), (group))
ATTRIBUTE(setegid, (gid_t group), (group))
ATTRIBUTE(setresuid, (uid_t real, uid_t effective, uid_t saved), (real, effective, saved))
ATTRIBUTE(setresgid, (gid_t real, gid_t effective, gid_t saved), (real, effective, saved))
ATTRIBUTE(setreuid, (uid_t real, uid_t effective), (real, effective))
ATTRIBUTE(setregid, (gid_t real, gid_t effective), (real, effective))
ATTRIBUTE(setfsuid, (uid_t user), (user))
ATTRIBUTE(setfsgid, (gid_t group), (group))
ATTRIBUTE(mlockall, (int flags), (flags))
ATTRIBUTE(sched_setparam, (pid_t pid, const struct sched_param *parameter), (pid, parameter))
ATTRIBUTE(setgroups, (size_t count, const gid_t *groups), (count, groups))
ATTRIBUTE(setpgid, (pid_t pid, pid_t group), (pid, group))
ATTRIBUTE(setpgrp, (void), ())
ATTRIBUTE(setsid, (void), ())
ATTRIBUTE(initgroups, (const char *user, gid_t group), (user, group))
ATTRIBUTE(nice, (int by), (by))
ATTRIBUTE(unshare, (int flags), (flags))
ATTRIBUTE(setns, (int descriptor, int kind), (descriptor, kind))
ATTRIBUTE(chroot, (const char *path), (path))
ATTRIBUTE(sched_setaffinity, (pid_t pid, size_t size, const cpu_set_t *set), (pid, size, set))
ATTRIBUTE(sched_setscheduler, (pid_t pid, int policy, const struct sched_param *parameter), (pid, policy, parameter))
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
	/* Libraries set names of threads and of memory, which is harmless. */
	bool names_thread = option == PR_SET_NAME && RAW0(SYS_gettid) != RAW0(SYS_getpid);
	if (!names_thread && option != PR_SET_VMA && option != PR_GET_NAME && option != PR_GET_DUMPABLE) {
		note_attribute("a request called prctl");
	}
	return (int)result(raw6(SYS_prctl, option, (long)a[0], (long)a[1], (long)a[2], (long)a[3], 0));
}

#endif
