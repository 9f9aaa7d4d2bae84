/*
 * How many requests, how much time and how much memory a worker may use before a fresh worker takes its place. The
 * worker checks that after a response, so no request is cut off.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "../engine/direct_calls.h"
#include "limits.h"
#include "../core/options.h"
#include "../core/raw.h"
#include "signals.h"
#include "../interpose/interpose.h"
#include "../core/snapshot_state.h"
#include "ipc.h"
#include "../core/recycle.h"
#include "../core/worker_state.h"

static struct {
	uint64_t requests; /* 0: any number */
	uint64_t age_end;  /* a second of the monotonic clock; 0: any age */
	enum ipc_Recycle why;
	const char *detail;
} limits;

/* A tenth more or less: workers that started together do not end together. */
static uint64_t spread(uint64_t value)
{
	uint64_t tenth = value / 10;

	return value == 0 ? 0 : value - tenth + (uint64_t)getpid() % (2 * tenth + 1);
}

void process_limits_start(void)
{
	interpose_attributes_start();
	limits.requests = spread(reprise_options.max_requests);
	limits.age_end = reprise_options.max_age ? raw_seconds() + spread(reprise_options.max_age) : 0;
}

/* KiB of resident memory that is no file's and not shared, without libphp's code; 0 if /proc cannot be read. */
static uint64_t private_kib(void)
{
	char text[128];
	long file = RAW4(SYS_openat, AT_FDCWD, "/proc/self/statm", O_RDONLY | O_CLOEXEC, 0);

	if (file < 0) {
		return 0;
	}
	long size = RAW3(SYS_read, (int)file, text, sizeof text - 1);
	RAW1(SYS_close, (int)file);
	if (size <= 0) {
		return 0;
	}
	text[size] = 0;
	char *at = text;
	(void)strtoull(at, &at, 10);
	uint64_t resident = strtoull(at, &at, 10), shared = strtoull(at, &at, 10);
	uint64_t own = resident > shared ? (resident - shared) * (PAGE / 1024) : 0;
	return own > engine_bound_kib() ? own - engine_bound_kib() : 0;
}

static bool spent(enum ipc_Recycle why, const char *detail)
{
	limits.why = why;
	limits.detail = detail;
	return true;
}

bool process_is_spent(void)
{
	if (snapshot->notes.dirty & DIRTY_ATTRIBUTES) {
		return spent(ipc_Recycle_Attributes, snapshot->notes.culprit);
	}
	if ((snapshot->notes.dirty & DIRTY_PASSED_BY) && !interpose_attributes_are_right()) {
		return spent(ipc_Recycle_Attributes, "a request changed limits, priorities or its name");
	}
	if (process_has_left_timers()) {
		return spent(ipc_Recycle_Timers, "a request made a timer");
	}
	if (limits.requests && reprise_worker->requests >= limits.requests) {
		return spent(ipc_Recycle_Requests, "it has served max_requests");
	}
	if (limits.age_end && raw_seconds() >= limits.age_end) {
		return spent(ipc_Recycle_Age, "it is as old as max_age says");
	}
	if (reprise_options.max_memory_kib && private_kib() > reprise_options.max_memory_kib) {
		return spent(ipc_Recycle_Memory, "it holds more than max_memory after a request");
	}
	return false;
}

void process_end_if_spent(void)
{
	if (limits.detail) {
		reprise_recycle(limits.why, limits.detail);
	}
}
