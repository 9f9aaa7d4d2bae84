/*
 * Signals and timers of a worker, in every mode. The kernel keeps them, and PHP does not reset them when a request
 * ends: an alarm would end the request of another visitor, and a signal that one request has blocked would not reach
 * the next.
 *
 * dirty*.c notes calls that change them. After a request with such a call, all of them are put back: in classic mode to
 * what PHP has made when its first request began, in a worker script to what it was when its loop began, in a snapshot
 * to what it was at the snapshot. A timer that runs when a worker script's loop begins belongs to the script, and
 * stays.
 *
 * Clones call this on the service stack: raw system calls only.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

#include "../core/raw.h"
#include "signals.h"
#include "../core/snapshot_state.h"
#include "worker.h"

void process_timers_stop(void)
{
	struct itimerval none = {0};
	uint32_t running = snapshot->notes.timers & ~snapshot->signals.own_timers;

	for (int which = 0; REPRISE_ALL_TIMERS >> which; which++) {
		if (running & (1u << which)) {
			RAW3(SYS_setitimer, which, &none, NULL);
		}
	}
	snapshot->notes.timers = 0;
}

/* Signals that are pending were meant for the request that is over. */
static void restore(uint64_t mask)
{
	uint64_t all = ~UINT64_C(0);
	struct timespec at_once = {0};

	RAW4(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, RAW_SIGSET_SIZE);
	while (RAW4(SYS_rt_sigtimedwait, &all, NULL, &at_once, RAW_SIGSET_SIZE) > 0) {
	}
	for (int number = 1; number <= RAW_SIGNALS; number++) {
		if (number != SIGKILL && number != SIGSTOP) {
			RAW4(SYS_rt_sigaction, number, &snapshot->signals.actions[number - 1], NULL, RAW_SIGSET_SIZE);
		}
	}
	RAW2(SYS_sigaltstack, &snapshot->signals.alternate_stack, NULL);
	RAW4(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, RAW_SIGSET_SIZE);
}

void process_signals_restore(void)
{
	uint64_t mask;

	RAW4(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &mask, RAW_SIGSET_SIZE);
	restore(mask);
}

void process_signals_note(void)
{
	RAW4(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &snapshot->signals.mask, RAW_SIGSET_SIZE);
	RAW2(SYS_sigaltstack, NULL, &snapshot->signals.alternate_stack);
	for (int number = 1; number <= RAW_SIGNALS; number++) {
		RAW4(SYS_rt_sigaction, number, NULL, &snapshot->signals.actions[number - 1], RAW_SIGSET_SIZE);
	}
	for (int which = 0; REPRISE_ALL_TIMERS >> which; which++) {
		struct itimerval now = {0};
		RAW2(SYS_getitimer, which, &now);
		if (now.it_value.tv_sec || now.it_value.tv_usec) {
			snapshot->signals.own_timers |= 1u << which;
		}
	}
}

bool process_signals_may_have_changed(void)
{
	return (snapshot->notes.dirty & DIRTY_SIGNALS) || !process_sees_calls();
}

void process_signals_settle(void)
{
	if (!process_sees_calls()) {
		snapshot->notes.timers = REPRISE_ALL_TIMERS;
	}
	process_timers_stop();
	if (process_signals_may_have_changed()) {
		restore(snapshot->signals.mask);
		snapshot->notes.dirty &= ~(uint32_t)DIRTY_SIGNALS;
	}
}

/* A kernel without this file is taken to have some. */
bool process_has_left_timers(void)
{
	char byte;

	if (!(snapshot->notes.dirty & DIRTY_POSIX_TIMERS)) {
		return false;
	}
	long file = RAW4(SYS_openat, AT_FDCWD, "/proc/self/timers", O_RDONLY | O_CLOEXEC, 0);
	long size = file < 0 ? 1 : RAW3(SYS_read, file, &byte, 1);

	if (file >= 0) {
		RAW1(SYS_close, file);
	}
	snapshot->notes.dirty &= ~(uint32_t)DIRTY_POSIX_TIMERS;
	return size != 0;
}
