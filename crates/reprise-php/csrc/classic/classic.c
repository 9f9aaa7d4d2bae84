/*
 * Classic mode. A worker claims a request, runs it as PHP-FPM does, and claims the next. It ends when the lane drains,
 * or when the supervisor is gone and no request is queued. It dies with its parent (PR_SET_PDEATHSIG).
 *
 * A request is php_request_startup, the script, and php_request_shutdown. Only the counters of the worker outlive it. A
 * worker never shuts PHP's modules down: they belong to the prototype.
 */
#define _GNU_SOURCE
#include <php.h>
#include <php_main.h>
#include <SAPI.h>

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "../cgi.h"
#include "../data/data.h"
#include "../engine/request_state.h"
#include "../limits.h"
#include "../log.h"
#include "../opcache.h"
#include "../options.h"
#include "../pinned.h"
#include "../request.h"
#include "../signals.h"
#include "../snapshot/snapshot.h"
#include "../variables.h"
#include "../worker.h"
#include "../worker_mode/worker_mode.h"
#include "classic.h"
#include "wire.h"

/* The front has seen the file, and the user of this process may have no access to it. The response is PHP-FPM's. */
static bool script_is_readable(const char *script)
{
	if (reprise_is_pinned_script(script) || access(script, R_OK) == 0) {
		return true;
	}
	int error = errno;
	SG(sapi_headers).http_response_code = error == EACCES ? 403 : 404;
	PUTS(error == EACCES ? "Access denied.\n" : "File not found.\n");
	struct reprise_about about;
	reprise_log_about(reprise_about_request(&about), "error", "script %s cannot be read: %s", script, strerror(error));
	return false;
}

/* No code of the application has run for this request yet: what is noted so far, PHP has done itself. */
static void signals_begin(void)
{
	static bool are_noted;

	if (!are_noted) {
		reprise_signals_note();
		are_noted = true;
	}
	snapshot->dirty &= ~(uint32_t)(DIRTY_SIGNALS | DIRTY_POSIX_TIMERS);
}

static void run_request(void)
{
	if (!reprise_claim_request()) {
		return;
	}
	const struct wire_RequestHead *head = reprise_head();
	const char *script = reprise_head_text(head->script);

	zend_first_try
	{
		reprise_describe_request(head);
		reprise_worker_mode_forget();
		bool has_started = php_request_startup() == SUCCESS;
		signals_begin();
		if (has_started) {
			if (!reprise_worker->body_broken && script_is_readable(script)) {
				reprise_run_script(script);
			}
			reprise_opcache_look();
		} else {
			SG(sapi_headers).http_response_code = 500;
		}
	}
	zend_end_try();
	reprise_worker->stage = REPRISE_ENDING;
	reprise_add_error_header();
	/* It has a zend_try for each step, and sends the rest of the output and the headers. */
	php_request_shutdown(NULL);
	if (reprise_worker->is_worker) {
		reprise_data_release();
		if (reprise_worker->responding) {
			reprise_finish_response();
		}
		reprise_signals_settle();
		reprise_data_end_request();
	} else {
		/* A child that the script has forked. It is no worker: its parent sends the response. */
		_exit(reprise_exit_status());
	}
}

void reprise_classic_run(int slab, const struct wire_Geometry *geometry, uint32_t slot, const int *eventfds)
{
	reprise_worker_attach(slab, geometry, slot, eventfds);
	if (reprise_watch_forks() != 0) {
		_exit(wire_Exit_Unhealthy);
	}
	reprise_limits_start();
	reprise_data_begin(DATA_SHARES, true);
	while (!reprise_is_spent() && reprise_await_request()) {
		run_request();
	}
	reprise_end_if_spent();
	_exit(wire_Exit_Success);
}
