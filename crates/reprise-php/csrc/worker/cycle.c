/*
 * A request of a worker script: php_request_startup and php_request_shutdown (main/main.c) without what belongs to the
 * whole script: its symbols, its objects, its autoloaders.
 */
#define _GNU_SOURCE
#include <php.h>
#include <php_main.h>
#include <php_output.h>
#include <php_variables.h>
#include <SAPI.h>
#include <ext/standard/basic_functions.h>

#include <string.h>

#include "../data/data.h"
#include "../request/cgi.h"
#include "../engine/boot_state.h"
#include "../engine/exceptions.h"
#include "../engine/exits.h"
#include "../engine/filter.h"
#include "../engine/function_state.h"
#include "../engine/handlers.h"
#include "../engine/modules.h"
#include "../engine/oom.h"
#include "../engine/output.h"
#include "../engine/request_state.h"
#include "../engine/session.h"
#include "../engine/step.h"
#include "../engine/streams.h"
#include "../engine/superglobals.h"
#include "../core/log.h"
#include "../request/opcache.h"
#include "../request/request.h"
#include "../process/signals.h"
#include "cycle.h"
#include "directory.h"
#include "ipc.h"
#include "../core/head.h"
#include "../request/additions.h"
#include "../core/worker_state.h"

/* As php_request_startup. */
void worker_begin_request(void)
{
	const struct ipc_RequestHead *head = reprise_head();

	reprise_worker->stage = REPRISE_STARTING;
	engine_exit_forget();
	request_describe(head);
	engine_forget_outcome();
	engine_begin_startup();
	engine_output_forget();
	/* Output and headers of the script between two requests go nowhere. */
	SG(headers_sent) = 1;
	php_output_discard_all();
	php_output_deactivate();
	php_output_activate();
	SG(headers_sent) = 0;
	zend_memory_reset_peak_usage();
	/* As in classic mode, PHP reads the request before it knows a handler of the application. */
	zval handler_of_script;
	engine_error_handler_hide(&handler_of_script);
	void *frame = engine_leave_code();
	sapi_activate();
	/* PHP sets the handler and the mask of its timer again only if the code between two requests may have changed them.
	 */
	engine_start_time_limit(process_signals_may_have_changed());
	engine_output_begin();
	php_hash_environment();
	engine_return_to_code(frame);
	engine_modules_start();
	engine_session_restore_handlers();
	engine_error_handler_show(&handler_of_script);
	request_fill_superglobals(true);
	worker_directory_enter(reprise_head_text(head->script));
	SG(sapi_started) = 1;
	engine_end_startup();
	request_script_begins();
}

/* Each step may run code of the request, which may throw, exit or fail. The script goes on, so an exception is settled
 * after each step. */
#define SETTLED(what)                                                                                                  \
	STEP(what);                                                                                                        \
	engine_settle_exception()

/* The steps of php_request_shutdown that end a request, and not the script. */
void worker_end_request(void)
{
	reprise_worker->stage = REPRISE_ENDING;
	worker_directory_leave();
	request_opcache_look();
	request_add_error_header();
	SETTLED(php_call_shutdown_functions());
	php_free_shutdown_functions();
	SETTLED(engine_superglobals_reset());
	SETTLED(php_output_end_all());
	zend_unset_timeout();
	engine_filter_forget();
	SETTLED(engine_modules_stop());
	SETTLED(php_output_deactivate());
	/* Code between two requests may use output buffers. Their contents go nowhere. */
	php_output_activate();
	SETTLED(engine_close_request_body());
	SETTLED(sapi_deactivate());
	/* sapi_deactivate has freed some of it, and would free it again at the end of the script. */
	memset(&SG(request_info), 0, sizeof SG(request_info));
	SETTLED(engine_superglobals_forget());
	SETTLED(engine_boot_restore_ini());
	engine_boot_restore_environment();
	SETTLED(engine_handlers_restore());
	SETTLED(engine_functions_forget());
	if (process_signals_may_have_changed()) {
		SETTLED(engine_functions_restore_signal_handlers());
	}
	data_release();
	if (reprise_worker->is_worker && reprise_worker->responding) {
		request_finish_response();
	}
	process_signals_settle();
	/* What the script logs between two requests is about neither. */
	reprise_forget_variables();
	SETTLED(worker_directory_return());
	if (engine_is_damaged() || engine_is_unclean()) {
		zend_bailout();
	}
}

/* The same for a request that a fatal error has ended. The end of the script follows, and its output goes nowhere. */
void worker_end_broken_request(void)
{
	/* As in php_request_shutdown: PHP may have failed to report exhausted memory, because the client had left. */
	engine_forget_exhausted_memory();
	request_add_error_header();
	STEP(php_call_shutdown_functions());
	php_free_shutdown_functions();
	STEP(php_output_end_all());
	zend_unset_timeout();
	engine_modules_stop();
	STEP(php_output_deactivate());
	data_release();
	if (reprise_worker->is_worker && reprise_worker->responding) {
		request_finish_response();
	}
}
