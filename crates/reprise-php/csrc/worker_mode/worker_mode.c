/*
 * Worker scripts: they call reprise_handle_request(callable) in a loop. What the script builds stays between requests.
 * What PHP itself keeps for a request is made before the callable runs, and is gone after it.
 *
 * The lane of a worker script has a forker, which boots nothing. First it forks a trial. The trial runs the script up
 * to its loop and to its end: a script that fails there gets no requests. Then it forks workers, and each worker runs
 * the script by itself. So no two workers share what the script opens.
 *
 * | the script                            | then                                                                  |
 * |---------------------------------------|-----------------------------------------------------------------------|
 * | calls with a request waiting          | begin_request, the callable, end_request; true                        |
 * | calls when the lane drains            | false; calls again: it is ended as by exit                            |
 * | ends the request by exit()            | the request ends as if the callable had returned, then the script, as |
 * |                                       | by exit, and a fresh worker takes this one's place                    |
 * | the same, and survives_exit is true   | as if the callable had returned                                       |
 * | throws an exception                   | PHP reports the exception; the loop goes on                           |
 * | runs into a fatal error               | the script ends, the request is answered as in classic mode, and a    |
 * |                                       | fresh worker takes this one's place                                   |
 */
#define _GNU_SOURCE
#include <php.h>
#include <php_main.h>
#include <php_output.h>
#include <SAPI.h>
#include <zend_exceptions.h>

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../bodies.h"
#include "../data/data.h"
#include "../engine/boot_state.h"
#include "../engine/captured.h"
#include "../engine/exceptions.h"
#include "../engine/exits.h"
#include "../engine/function_state.h"
#include "../engine/handlers.h"
#include "../engine/modules.h"
#include "../engine/oom.h"
#include "../engine/opcache_clock.h"
#include "../engine/output.h"
#include "../engine/request_state.h"
#include "../engine/session.h"
#include "../engine/shutdown_functions.h"
#include "../engine/superglobals.h"
#include "../forker.h"
#include "../limits.h"
#include "../loaded.h"
#include "../log.h"
#include "../options.h"
#include "../prototype.h"
#include "../request.h"
#include "../signals.h"
#include "../snapshot/clone.h"
#include "../snapshot/interpose.h"
#include "../snapshot/serve.h"
#include "../snapshot/template.h"
#include "../variables.h"
#include "../worker.h"
#include "cycle.h"
#include "wire.h"
#include "worker_mode.h"

static struct {
	bool is_on;      /* this process runs a worker script */
	bool is_trial;   /* and ends it at its loop */
	bool has_begun;  /* the loop was reached */
	bool is_over;    /* the script was told so, or a request has called exit() */
	bool has_exited; /* a request has called exit() */
	bool in_request;
	bool was_called; /* in classic mode */
	uint32_t slot;
} loop;

bool reprise_is_worker_mode(void)
{
	return loop.is_on;
}

bool reprise_worker_mode_has_begun(void)
{
	return loop.has_begun;
}

static void call_handler(zend_fcall_info *handler, zend_fcall_info_cache *cache)
{
	zval result;

	ZVAL_UNDEF(&result);
	handler->retval = &result;
	handler->param_count = 0;
	zend_call_function(handler, cache);
	zval_ptr_dtor(&result);
	if (reprise_forget_exhausted_memory()) {
		/* That is a fatal error: php_request_shutdown ends the request. */
		zend_bailout();
	}
}

/* ---- the loop -----------------------------------------------------------------------------------------------------
 */

static void begin_loop(void)
{
	loop.has_begun = true;
	if (loop.is_trial) {
		reprise_report_captured(false, "in the callable of reprise_handle_request()");
	}
	zval written;

	ZVAL_UNDEF(&written);
	if (SG(headers_sent) || (php_output_get_length(&written) == SUCCESS && Z_LVAL(written) > 0)) {
		reprise_log_line("notice", "%s: output before the request loop is discarded",
		                 reprise_head_text(reprise_head()->script));
	}
	/* PHP's timer has its handler in each request, whatever the boot has done to signals. */
	reprise_start_time_limit(true);
	zend_unset_timeout();
	php_output_discard_all();
	php_output_deactivate();
	reprise_session_note_handlers();
	reprise_modules_stop();
	reprise_note_additions();
	reprise_close_script();
	reprise_boot_note_ini();
	reprise_boot_note_environment();
	reprise_handlers_note();
	reprise_functions_note();
	reprise_shutdown_functions_keep();
	php_output_activate();
	sapi_deactivate();
	memset(&SG(request_info), 0, sizeof SG(request_info));
	SG(post_read) = true;
	reprise_superglobals_forget();
	if (!loop.is_trial) {
		reprise_loaded_note();
		reprise_attributes_start();
		reprise_worker_attach(reprise_forker->slab, &reprise_forker->geometry, loop.slot, reprise_forker->eventfds);
		reprise_signals_note();
	}
}

/* False: no request will come. */
static bool claim_request(void)
{
	if (loop.is_trial || reprise_is_spent() || reprise_boot_is_lost()) {
		return false;
	}
	while (reprise_await_request()) {
		if (reprise_claim_request()) {
			return true;
		}
	}
	return false;
}

/* In classic mode there is one request, and the callable runs for it once. */
static void handle_classic(zend_fcall_info *handler, zend_fcall_info_cache *cache)
{
	if (loop.was_called) {
		return;
	}
	loop.was_called = true;
	if (reprise_worker->is_worker && reprise_worker->responding) {
		wire_note(&reprise_worker->wire, wire_NOTE_WORKER_MODE);
	}
	call_handler(handler, cache);
}

/* For each request of classic mode. */
void reprise_worker_mode_forget(void)
{
	loop.was_called = false;
}

ZEND_FUNCTION(reprise_handle_request)
{
	zend_fcall_info handler;
	zend_fcall_info_cache cache;
	bool survives_exit = false;

	ZEND_PARSE_PARAMETERS_START(1, 2)
	Z_PARAM_FUNC(handler, cache)
	Z_PARAM_OPTIONAL
	Z_PARAM_BOOL(survives_exit)
	ZEND_PARSE_PARAMETERS_END();
	if (reprise_worker->is_template) {
		reprise_boot_failed("the script calls reprise_handle_request() before its snapshot", "use one of the two");
	}
	if (!loop.is_on) {
		handle_classic(&handler, &cache);
		RETURN_FALSE;
	}
	if (!reprise_is_marked_process()) {
		/* A child that the script has forked gets no requests. */
		RETURN_FALSE;
	}
	if (loop.in_request) {
		zend_throw_error(NULL, "reprise_handle_request() was called by a request");
		RETURN_THROWS();
	}
	if (loop.is_over) {
		zend_throw_unwind_exit();
		return;
	}
	if (reprise_output_is_in_callback()) {
		zend_throw_error(NULL, "reprise_handle_request() was called by an output callback");
		RETURN_THROWS();
	}
	if (!loop.has_begun) {
		if (!reprise_script_has_begun()) {
			reprise_boot_failed("the file of auto_prepend_file calls reprise_handle_request()",
			                    "call it in the script: the script would run only after the last request");
		}
		begin_loop();
	}
	if (!claim_request()) {
		loop.is_over = true;
		RETURN_FALSE;
	}
	loop.in_request = true;
	reprise_worker_mode_begin_request();
	/* The callable does not run for a body that broke off. */
	if (!reprise_worker->body_broken) {
		call_handler(&handler, &cache);
	}
	if (!reprise_is_marked_process()) {
		/* A child that the request has forked ends as any process of PHP does, with shutdown functions and destructors.
		 */
		if (!reprise_has_exception()) {
			zend_throw_unwind_exit();
		}
		return;
	}
	reprise_settle_exception();
	reprise_worker_mode_end_request();
	reprise_data_end_request();
	loop.in_request = false;
	/* Code of the script runs from here on. The supervisor measures the time until the next call. */
	wire_show(&reprise_worker->wire, wire_Activity_Booting);
	if (reprise_exit_was_called() && !survives_exit) {
		/* No `finally` block has run, so the application may still keep data of this request. No other request may see
		 * it. */
		loop.is_over = loop.has_exited = true;
		zend_throw_unwind_exit();
		return;
	}
	RETURN_TRUE;
}

/* ---- processes ----------------------------------------------------------------------------------------------------
 */

/* An application may end many requests by exit(). The log has the first, and the counters have all. */
static _Noreturn void leave_after_exit(void)
{
	uint64_t recycles[wire_RECYCLES] = {0};

	wire_recycles(&reprise_worker->wire, &recycles);
	if (recycles[wire_Recycle_Exit] == 0) {
		reprise_recycle(wire_Recycle_Exit,
		                "a request called exit(), so the script ended, and starts again; further ends by exit() "
		                "are counted and not logged (docs/guides/worker.md: survives_exit)");
	}
	wire_recycled(&reprise_worker->wire, wire_Recycle_Exit);
	_exit(wire_Exit_Recycle);
}

static _Noreturn void run_script(void)
{
	const struct wire_RequestHead *head = reprise_head();

	volatile bool ran_to_end = false;

	loop.is_on = true;
	reprise_data_begin(DATA_KEEPS, true);
	reprise_mark_process();
	zend_first_try
	{
		reprise_describe_request(head);
		reprise_opcache_clock_watch();
		if (php_request_startup() == SUCCESS) {
			reprise_opcache_clock_find();
			ran_to_end = reprise_run_script(reprise_head_text(head->script));
		}
	}
	zend_end_try();
	if (!reprise_is_marked_process()) {
		reprise_worker->responding = false;
		php_request_shutdown(NULL);
		_exit(reprise_exit_status());
	}
	if (!loop.has_begun) {
		reprise_boot_ended("the script ended without calling reprise_handle_request()", ran_to_end);
	}
	/* An end by exit() is a good end, and so is any end after the script was told that no request will come. */
	bool is_broken = !ran_to_end && !loop.is_over && reprise_exit_status() == REPRISE_STATUS_FAILED;
	reprise_worker->stage = REPRISE_ENDING;
	if (loop.in_request) {
		/* The request ends first: output of the script's end is no part of its response. */
		reprise_worker_mode_end_broken_request();
	}
	reprise_shutdown_functions_restore();
	php_request_shutdown(NULL);
	if (loop.in_request) {
		reprise_recycle(wire_Recycle_Bailout, "a request ended by a fatal error");
	}
	if (is_broken) {
		reprise_recycle(wire_Recycle_Bailout, "the script ended by a fatal error between two requests");
	}
	if (loop.has_exited) {
		leave_after_exit();
	}
	reprise_end_if_spent();
	_exit(wire_Exit_Success);
}

static long fork_worker(struct forker *forker, uint32_t slot)
{
	long pid = reprise_fork_worker(forker);

	if (pid == 0) {
		loop.slot = slot;
		reprise_limits_start();
		run_script();
	}
	return pid;
}

static const struct forker_methods methods = {.fork_worker = fork_worker, .tell = reprise_loaded_tell};

/* 0: the script has come to its loop, and has ended when it was told to. Otherwise an exit code. */
static int try_script(struct forker *forker)
{
	pid_t pid = (pid_t)reprise_fork_worker(forker);
	int status;

	if (pid == 0) {
		loop.is_trial = true;
		run_script();
	}
	if (pid < 0) {
		reprise_log_line("error", "the script cannot be tried: no process can be forked: %s",
		                 pid == -EAGAIN ? "RLIMIT_NPROC or pids.max is too low" : strerror(-pid));
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR) {
			return wire_Exit_NotBooted;
		}
	}
	return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : wire_Exit_NotBooted;
}

_Noreturn void reprise_worker_mode_run(struct forker *forker)
{
	struct wire_FromForker ready = {
	    .tag = wire_FromForker_TemplateReady,
	    .template_ready = {.isolation = wire_Isolation_WorkerMode},
	};

	forker->methods = &methods;
	reprise_loaded_prepare();
	int code = try_script(forker);
	if (code == 0) {
		(void)prctl(PR_SET_DUMPABLE, 0);
		reprise_describe_bodies(&ready.template_ready.bodies);
		code = wire_Exit_Internal;
		if (reprise_forker_start(forker) >= 0) {
			reprise_forker_tell(forker, &ready);
			code = reprise_forker_run(forker);
		}
	}
	_exit(code);
}
