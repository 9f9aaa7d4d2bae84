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
#include <ext/standard/php_filestat.h>
#include <zend_exceptions.h>

#include <unistd.h>

#include "loop.h"

/* What code written for that interface looks for. */
static void name_interface(void)
{
	zval *server = zend_hash_find(&EG(symbol_table), ZSTR_KNOWN(ZEND_STR_AUTOGLOBAL_SERVER));

	if (server && Z_TYPE_P(server) == IS_ARRAY) {
		SEPARATE_ARRAY(server);
		add_assoc_string(server, "FRANKENPHP_WORKER", "1");
	}
}

void reprise_loop_forget_input(void)
{
	for (int i = 0; i < NUM_TRACK_VARS; i++) {
		zval_ptr_dtor(&PG(http_globals)[i]);
		ZVAL_UNDEF(&PG(http_globals)[i]);
	}
}

/* As php_request_startup. */
void reprise_loop_begin_request(void)
{
	const struct wire_RequestHead *head = reprise_head();

	reprise_worker.stage = REPRISE_STARTING;
	reprise_describe_request(head);
	EG(exit_status) = 0;
	PG(during_request_startup) = true;
	PG(header_is_being_sent) = 0;
	PG(connection_status) = PHP_CONNECTION_NORMAL;
	php_output_activate();
	sapi_activate();
	SG(request_info).proto_num = (int)head->protocol;
	zend_set_timeout(EG(timeout_seconds), 1);
	if (PG(expose_php)) {
		sapi_add_header(SAPI_PHP_VERSION_HEADER, sizeof(SAPI_PHP_VERSION_HEADER) - 1, 1);
	}
	if (PG(output_handler) && *PG(output_handler)) {
		zval handler;
		ZVAL_STRING(&handler, PG(output_handler));
		php_output_start_user(&handler, 0, PHP_OUTPUT_HANDLER_STDFLAGS);
		zval_ptr_dtor(&handler);
	} else if (PG(output_buffering)) {
		php_output_start_user(NULL, PG(output_buffering) > 1 ? (size_t)PG(output_buffering) : 0,
		                      PHP_OUTPUT_HANDLER_STDFLAGS);
	} else if (PG(implicit_flush)) {
		php_output_set_implicit_flush(1);
	}
	php_hash_environment();
	reprise_loop_start_modules();
	reprise_loop_restore_session_handlers();
	reprise_fill_superglobals(true);
	name_interface();
	reprise_enter_directory(reprise_head_text(head->script));
	SG(sapi_started) = 1;
	PG(during_request_startup) = false;
	reprise_worker.stage = REPRISE_RUNNING;
	if (reprise_worker.body_broken) {
		zend_bailout();
	}
}

static void forget(const char *name, size_t size)
{
	zend_hash_str_del(&EG(symbol_table), name, size);
}

/* What nobody has caught: exit() ends the request; an exception is PHP's to report, as at the end of a script. */
void reprise_loop_settle_exception(void)
{
	if (!EG(exception)) {
		return;
	}
	if (!zend_is_unwind_exit(EG(exception)) && !zend_is_graceful_exit(EG(exception))) {
		if (Z_TYPE(EG(user_exception_handler)) != IS_UNDEF) {
			zend_user_exception_handler();
		}
		if (EG(exception)) {
			if (zend_is_unwind_exit(EG(exception))) {
				zend_clear_exception();
			} else {
				zend_exception_error(EG(exception), E_ERROR);
			}
		}
		return;
	}
	OBJ_RELEASE(EG(exception));
	EG(exception) = NULL;
}

/* As php_request_shutdown, as far as a request goes. */
void reprise_loop_end_request(void)
{
	reprise_worker.stage = REPRISE_ENDING;
	/* As after a script: shutdown functions do not see its directory. */
	if (chdir("/") != 0) {
		reprise_log_line("warning", "cannot enter /");
	}
	/* Code of the request may throw or exit in each of these too. Within a script that is not over, it would go on. */
	php_call_shutdown_functions();
	reprise_loop_settle_exception();
	php_free_shutdown_functions();
	STEP(php_output_end_all());
	reprise_loop_settle_exception();
	zend_unset_timeout();
	reprise_loop_stop_modules();
	reprise_loop_settle_exception();
	STEP(php_output_deactivate());
	if (SG(request_info).request_body) {
		STEP(php_stream_close(SG(request_info).request_body));
		SG(request_info).request_body = NULL;
		SG(post_read) = true; /* and nothing of it is waited for */
	}
	STEP(sapi_deactivate());
	reprise_loop_forget_input();
	forget(ZEND_STRL("_SESSION"));
	STEP(reprise_loop_restore_ini());
	reprise_loop_restore_environment();
	STEP(reprise_loop_restore_handlers());
	if (PG(last_error_message)) {
		zend_string_release(PG(last_error_message));
		PG(last_error_message) = NULL;
	}
	if (PG(last_error_file)) {
		zend_string_release(PG(last_error_file));
		PG(last_error_file) = NULL;
	}
	php_clear_stat_cache(0, NULL, 0);
	if (reprise_worker.is_worker && reprise_worker.answering) {
		reprise_finish_answer();
	}
}
