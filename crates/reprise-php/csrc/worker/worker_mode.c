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

#include "../request/bodies.h"
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
#include "../process/forker.h"
#include "../process/limits.h"
#include "../process/loaded.h"
#include "../core/log.h"
#include "../core/options.h"
#include "../request/request.h"
#include "../process/signals.h"
#include "../interpose/interpose.h"
#include "../process/worker.h"
#include "cycle.h"
#include "ipc.h"
#include "worker_mode.h"
#include "../core/head.h"
#include "../core/mode.h"
#include "../core/boot_failure.h"
#include "../core/forker_link.h"
#include "../core/recycle.h"
#include "../process/worker_process.h"
#include "../request/additions.h"
#include "../core/worker_state.h"
#include "../core/forker_state.h"

static struct {
	bool is_trial;   /* this process ends the script at its loop */
	bool is_over;    /* the script was told so, or a request has called exit() */
	bool has_exited; /* a request has called exit() */
	bool in_request;
	uint32_t slot;
} loop;

static void call_handler(zend_fcall_info *handler, zend_fcall_info_cache *cache)
{
	zval result;

	ZVAL_UNDEF(&result);
	handler->retval = &result;
	handler->param_count = 0;
	zend_call_function(handler, cache);
	zval_ptr_dtor(&result);
	if (engine_forget_exhausted_memory()) {
		/* That is a fatal error: php_request_shutdown ends the request. */
		zend_bailout();
	}
}

/* ---- the loop -----------------------------------------------------------------------------------------------------
 */

static void begin_loop(void)
{
	reprise_loop_begins();
	if (loop.is_trial) {
		engine_report_captured(false, "in the callable of reprise_handle_request()");
	}
	zval written;

	ZVAL_UNDEF(&written);
	if (SG(headers_sent) || (php_output_get_length(&written) == SUCCESS && Z_LVAL(written) > 0)) {
		reprise_log_line("notice", "%s: output before the request loop is discarded",
		                 reprise_head_text(reprise_head()->script));
	}
	/* PHP's timer has its handler in each request, whatever the boot has done to signals. */
	engine_start_time_limit(true);
	zend_unset_timeout();
	php_output_discard_all();
	php_output_deactivate();
	engine_session_note_handlers();
	engine_modules_stop();
	request_note_additions();
	request_close_script();
	engine_boot_note_ini();
	engine_boot_note_environment();
	engine_handlers_note();
	engine_functions_note();
	engine_shutdown_functions_keep();
	php_output_activate();
	sapi_deactivate();
	memset(&SG(request_info), 0, sizeof SG(request_info));
	SG(post_read) = true;
	engine_superglobals_forget();
	if (!loop.is_trial) {
		process_loaded_note();
		interpose_attributes_start();
		process_worker_attach(reprise_forker->slab, &reprise_forker->geometry, loop.slot, reprise_forker->eventfds);
		process_signals_note();
	}
}

/* False: no request will come. */
static bool claim_request(void)
{
	if (loop.is_trial || process_is_spent() || engine_boot_is_lost()) {
		return false;
	}
	while (process_await_request()) {
		if (request_claim()) {
			return true;
		}
	}
	return false;
}

/* In classic mode there is one request, and the callable runs for it once. */
static void handle_classic(zend_fcall_info *handler, zend_fcall_info_cache *cache)
{
	if (reprise_worker->was_called) {
		return;
	}
	reprise_worker->was_called = true;
	if (reprise_worker->is_worker && reprise_worker->responding) {
		ipc_note(&reprise_worker->ipc, ipc_NOTE_WORKER_MODE);
	}
	call_handler(handler, cache);
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
	if (!reprise_is_worker_mode()) {
		handle_classic(&handler, &cache);
		RETURN_FALSE;
	}
	if (!process_is_marked()) {
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
	if (engine_output_is_in_callback()) {
		zend_throw_error(NULL, "reprise_handle_request() was called by an output callback");
		RETURN_THROWS();
	}
	if (!reprise_worker_mode_has_begun()) {
		if (!request_script_has_begun()) {
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
	worker_begin_request();
	/* The callable does not run for a body that broke off. */
	if (!reprise_worker->body_broken) {
		call_handler(&handler, &cache);
	}
	if (!process_is_marked()) {
		/* A child that the request has forked ends as any process of PHP does, with shutdown functions and destructors.
		 */
		if (!engine_has_exception()) {
			zend_throw_unwind_exit();
		}
		return;
	}
	engine_settle_exception();
	worker_end_request();
	data_end_request();
	loop.in_request = false;
	/* Code of the script runs from here on. The supervisor measures the time until the next call. */
	ipc_show(&reprise_worker->ipc, ipc_Activity_Booting);
	if (engine_exit_was_called() && !survives_exit) {
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
	uint64_t recycles[ipc_RECYCLES] = {0};

	ipc_recycles(&reprise_worker->ipc, &recycles);
	if (recycles[ipc_Recycle_Exit] == 0) {
		reprise_recycle(ipc_Recycle_Exit,
		                "a request called exit(), so the script ended, and starts again; further ends by exit() "
		                "are counted and not logged (docs/guides/worker.md: survives_exit)");
	}
	ipc_recycled(&reprise_worker->ipc, ipc_Recycle_Exit);
	_exit(ipc_Exit_Recycle);
}

static _Noreturn void run_script(void)
{
	const struct ipc_RequestHead *head = reprise_head();

	volatile bool ran_to_end = false;

	reprise_run_worker_mode();
	data_begin(DATA_KEEPS, true);
	process_mark();
	zend_first_try
	{
		request_describe(head);
		engine_opcache_clock_watch();
		if (php_request_startup() == SUCCESS) {
			engine_opcache_clock_find();
			ran_to_end = request_run_script(reprise_head_text(head->script));
		}
	}
	zend_end_try();
	if (!process_is_marked()) {
		reprise_worker->responding = false;
		php_request_shutdown(NULL);
		_exit(engine_exit_status());
	}
	if (!reprise_worker_mode_has_begun()) {
		request_boot_ended("the script ended without calling reprise_handle_request()", ran_to_end);
	}
	/* An end by exit() is a good end, and so is any end after the script was told that no request will come. */
	bool is_broken = !ran_to_end && !loop.is_over && engine_exit_status() == REPRISE_STATUS_FAILED;
	reprise_worker->stage = REPRISE_ENDING;
	if (loop.in_request) {
		/* The request ends first: output of the script's end is no part of its response. */
		worker_end_broken_request();
	}
	engine_shutdown_functions_restore();
	php_request_shutdown(NULL);
	if (loop.in_request) {
		reprise_recycle(ipc_Recycle_Bailout, "a request ended by a fatal error");
	}
	if (is_broken) {
		reprise_recycle(ipc_Recycle_Bailout, "the script ended by a fatal error between two requests");
	}
	if (loop.has_exited) {
		leave_after_exit();
	}
	process_end_if_spent();
	_exit(ipc_Exit_Success);
}

static long fork_worker(struct forker *forker, uint32_t slot)
{
	long pid = process_fork_worker(forker);

	if (pid == 0) {
		loop.slot = slot;
		process_limits_start();
		run_script();
	}
	return pid;
}

static const struct forker_methods methods = {.fork_worker = fork_worker, .tell = process_loaded_tell};

/* 0: the script has come to its loop, and has ended when it was told to. Otherwise an exit code. */
static int try_script(struct forker *forker)
{
	pid_t pid = (pid_t)process_fork_worker(forker);
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
			return ipc_Exit_NotBooted;
		}
	}
	return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : ipc_Exit_NotBooted;
}

_Noreturn void worker_run(struct forker *forker)
{
	struct ipc_FromForker ready = {
	    .tag = ipc_FromForker_TemplateReady,
	    .template_ready = {.isolation = ipc_Isolation_WorkerMode},
	};

	forker->methods = &methods;
	process_loaded_prepare();
	int code = try_script(forker);
	if (code == 0) {
		(void)prctl(PR_SET_DUMPABLE, 0);
		request_describe_bodies(&ready.template_ready.bodies);
		code = ipc_Exit_Internal;
		if (process_forker_start(forker) >= 0) {
			reprise_forker_tell(forker, &ready);
			code = process_forker_run(forker);
		}
	}
	_exit(code);
}
