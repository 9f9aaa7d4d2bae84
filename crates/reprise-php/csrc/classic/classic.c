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

#include "../request/cgi.h"
#include "../data/data.h"
#include "../engine/request_state.h"
#include "../process/limits.h"
#include "../core/log.h"
#include "../request/opcache.h"
#include "../core/pinned.h"
#include "../request/request.h"
#include "../process/signals.h"
#include "../core/snapshot_state.h"
#include "../process/worker.h"
#include "classic.h"
#include "ipc.h"
#include "../core/head.h"
#include "../core/worker_state.h"

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
		process_signals_note();
		are_noted = true;
	}
	snapshot->notes.dirty &= ~(uint32_t)(DIRTY_SIGNALS | DIRTY_POSIX_TIMERS);
}

static void run_request(void)
{
	if (!request_claim()) {
		return;
	}
	const struct ipc_RequestHead *head = reprise_head();
	const char *script = reprise_head_text(head->script);

	zend_first_try
	{
		request_describe(head);
		bool has_started = php_request_startup() == SUCCESS;
		signals_begin();
		if (has_started) {
			if (!reprise_worker->body_broken && script_is_readable(script)) {
				request_run_script(script);
			}
			request_opcache_look();
		} else {
			SG(sapi_headers).http_response_code = 500;
		}
	}
	zend_end_try();
	reprise_worker->stage = REPRISE_ENDING;
	request_add_error_header();
	/* It has a zend_try for each step, and sends the rest of the output and the headers. */
	php_request_shutdown(NULL);
	if (reprise_worker->is_worker) {
		data_release();
		if (reprise_worker->responding) {
			request_finish_response();
		}
		process_signals_settle();
		data_end_request();
	} else {
		/* A child that the script has forked. It is no worker: its parent sends the response. */
		_exit(engine_exit_status());
	}
}

void classic_run(int slab, const struct ipc_Geometry *geometry, uint32_t slot, const int *eventfds)
{
	process_worker_attach(slab, geometry, slot, eventfds);
	if (process_watch_forks() != 0) {
		_exit(ipc_Exit_Unhealthy);
	}
	process_limits_start();
	data_begin(DATA_SHARES, true);
	while (!process_is_spent() && process_await_request()) {
		run_request();
	}
	process_end_if_spent();
	_exit(ipc_Exit_Success);
}
