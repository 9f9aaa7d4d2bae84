/*
 * The working directory of a worker script. A request begins in the directory of its script, and so does the code
 * between two requests. What runs after the callable, runs in /, as after a script in classic mode.
 *
 * Entering a directory costs a tenth of a short request. So the process stays where it is as long as no call has
 * changed the directory and no code runs after the callable. The path may come to name another directory, by a rename
 * for example. So the process enters it anew once a second.
 */
#define _GNU_SOURCE
#include <php.h>

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../engine/function_state.h"
#include "../engine/late_code.h"
#include "../core/log.h"
#include "../process/worker.h"
#include "directory.h"
#include "../core/head.h"
#include "../request/request.h"
#include "../core/worker_state.h"

static struct {
	bool is_entered;
	uint32_t calls; /* that may change the directory, when it was entered */
	time_t second;
} home;

static time_t second_now(void)
{
	struct timespec now = {0};

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return now.tv_sec;
}

static bool is_at_home(void)
{
	return home.is_entered && process_sees_calls() && home.calls == reprise_worker->directory_calls;
}

static void enter(const char *script)
{
	if (!engine_functions_enter_directory(script)) {
		request_enter_directory(script);
	}
	home.is_entered = true;
	home.calls = reprise_worker->directory_calls;
}

void worker_directory_enter(const char *script)
{
	time_t now = second_now();

	if (!is_at_home() || home.second != now) {
		enter(script);
		home.second = now;
	}
}

void worker_directory_leave(void)
{
	if (is_at_home() && !engine_late_code_may_run()) {
		return;
	}
	home.is_entered = false;
	if (chdir("/") != 0) {
		reprise_log_line("warning", "cannot enter /");
	}
}

void worker_directory_return(void)
{
	if (!is_at_home()) {
		enter(reprise_head_text(reprise_head()->script));
	}
}
