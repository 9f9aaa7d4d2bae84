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
#include <ext/standard/file.h>
#include <zend_exceptions.h>

#include <string.h>
#include <unistd.h>

#include "../cgi.h"
#include "../engine/exits.h"
#include "../engine/function_state.h"
#include "../engine/handlers.h"
#include "../engine/oom.h"
#include "../engine/session.h"
#include "../engine/step.h"
#include "../log.h"
#include "../opcache.h"
#include "../request.h"
#include "../snapshot/serve.h"
#include "../variables.h"
#include "../worker.h"
#include "boot_state.h"
#include "cycle.h"
#include "modules.h"
#include "wire.h"

/* What code written for that interface looks for. */
static void name_interface(void)
{
	zval *server = zend_hash_find(&EG(symbol_table), ZSTR_KNOWN(ZEND_STR_AUTOGLOBAL_SERVER));

	if (server && Z_TYPE_P(server) == IS_ARRAY) {
		SEPARATE_ARRAY(server);
		add_assoc_string(server, "FRANKENPHP_WORKER", "1");
	}
}

void reprise_worker_mode_forget_input(void)
{
	static const char *const names[] = {"_GET",    "_POST", "_COOKIE",  "_FILES",
	                                    "_SERVER", "_ENV",  "_REQUEST", "_SESSION"};

	for (int i = 0; i < NUM_TRACK_VARS; i++) {
		zval_ptr_dtor(&PG(http_globals)[i]);
		ZVAL_UNDEF(&PG(http_globals)[i]);
	}
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		zend_hash_str_del(&EG(symbol_table), names[i], strlen(names[i]));
	}
}

/* What the request has put into its superglobals goes while its output still comes; output callbacks find what came. */
static void empty_superglobals(void)
{
	static const char *const names[NUM_TRACK_VARS] = {
	    [TRACK_VARS_POST] = "_POST",     [TRACK_VARS_GET] = "_GET", [TRACK_VARS_COOKIE] = "_COOKIE",
	    [TRACK_VARS_SERVER] = "_SERVER", [TRACK_VARS_ENV] = "_ENV", [TRACK_VARS_FILES] = "_FILES",
	};

	for (int i = 0; i < NUM_TRACK_VARS; i++) {
		if (names[i] && Z_TYPE(PG(http_globals)[i]) == IS_ARRAY) {
			zval brought;
			ZVAL_COPY(&brought, &PG(http_globals)[i]);
			zend_hash_str_update(&EG(symbol_table), names[i], strlen(names[i]), &brought);
		}
	}
	zend_hash_str_del(&EG(symbol_table), ZEND_STRL("_REQUEST"));
}

/* php://input has the body without holding it: its streams go first. */
static void close_body(void)
{
	zend_resource *resource, *body = NULL;
	const int stream_type = php_file_le_stream();

	if (!SG(request_info).request_body) {
		/* Whatever opens php://input makes one. */
		SG(post_read) = true;
		return;
	}
	ZEND_HASH_FOREACH_PTR(&EG(regular_list), resource)
	{
		if (resource->type != stream_type || !resource->ptr) {
			continue;
		}
		php_stream *stream = resource->ptr;
		if (stream == SG(request_info).request_body) {
			body = resource;
		} else if (stream->ops->label && strcmp(stream->ops->label, "Input") == 0) {
			zend_list_close(resource);
		}
	}
	ZEND_HASH_FOREACH_END();
	if (body) {
		zend_list_close(body);
		/* Nobody else holds it: closed, it would stay in the list. */
		zend_list_delete(body);
	}
	SG(request_info).request_body = NULL;
	SG(post_read) = true; /* nothing of it is waited for */
}

/* As php_request_startup. */
void reprise_worker_mode_begin_request(void)
{
	const struct wire_RequestHead *head = reprise_head();

	reprise_worker->stage = REPRISE_STARTING;
	reprise_exit_forget();
	reprise_describe_request(head);
	EG(exit_status) = 0;
	PG(during_request_startup) = true;
	PG(header_is_being_sent) = 0;
	PG(in_user_include) = 0;
	PG(connection_status) = PHP_CONNECTION_NORMAL;
	/* What the script has written since the last request is nobody's, nor are its headers. */
	SG(headers_sent) = 1;
	php_output_discard_all();
	php_output_deactivate();
	php_output_activate();
	SG(headers_sent) = 0;
	zend_memory_reset_peak_usage();
	/* As in classic mode: PHP reads the request before it knows any of the application's handlers. */
	zval handler_of_script;
	ZVAL_COPY_VALUE(&handler_of_script, &EG(user_error_handler));
	ZVAL_UNDEF(&EG(user_error_handler));
	sapi_activate();
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
	reprise_worker_mode_start_modules();
	reprise_session_restore_handlers();
	ZVAL_COPY_VALUE(&EG(user_error_handler), &handler_of_script);
	reprise_fill_superglobals(true);
	name_interface();
	reprise_functions_enter_directory(reprise_head_text(head->script));
	SG(sapi_started) = 1;
	PG(during_request_startup) = false;
	reprise_script_begins();
}

/* A fatal error came after the callable had returned: the process is not to be trusted with another request. */
static bool is_damaged;

/* What nobody has caught: exit() ends the request; an exception is PHP's to report, as at the end of a script. */
void reprise_worker_mode_settle_exception(void)
{
	is_damaged = reprise_forget_exhausted_memory() || is_damaged;
	if (!EG(exception)) {
		return;
	}
	if (zend_is_unwind_exit(EG(exception))) {
		reprise_exit_note();
	} else if (!zend_is_graceful_exit(EG(exception))) {
		if (Z_TYPE(EG(user_exception_handler)) != IS_UNDEF) {
			zend_user_exception_handler();
		}
		if (EG(exception) && !zend_is_unwind_exit(EG(exception))) {
			zend_exception_error(EG(exception), E_ERROR);
		}
	}
	if (EG(exception)) {
		OBJ_RELEASE(EG(exception));
		EG(exception) = NULL;
	}
}

/* Each may run code of the request, which may throw, exit or fail. Within a script that is not over, it would go on. */
#define SETTLED(what)                                                                                                  \
	STEP(what);                                                                                                        \
	reprise_worker_mode_settle_exception()

/* As php_request_shutdown, as far as a request goes. */
void reprise_worker_mode_end_request(void)
{
	reprise_worker->stage = REPRISE_ENDING;
	/* As after a script: shutdown functions do not see its directory. */
	if (chdir("/") != 0) {
		reprise_log_line("warning", "cannot enter /");
	}
	reprise_opcache_look();
	reprise_add_error_header();
	SETTLED(php_call_shutdown_functions());
	php_free_shutdown_functions();
	SETTLED(empty_superglobals());
	SETTLED(php_output_end_all());
	zend_unset_timeout();
	SETTLED(reprise_worker_mode_stop_modules());
	SETTLED(php_output_deactivate());
	/* Code between two requests may use buffers, which go nowhere. */
	php_output_activate();
	SETTLED(close_body());
	SETTLED(sapi_deactivate());
	/* Some of it is freed now, and would be again at the end of the script. */
	memset(&SG(request_info), 0, sizeof SG(request_info));
	SETTLED(reprise_worker_mode_forget_input());
	SETTLED(reprise_worker_mode_restore_ini());
	reprise_worker_mode_restore_environment();
	SETTLED(reprise_handlers_restore());
	SETTLED(reprise_functions_forget());
	if (reprise_worker->is_worker && reprise_worker->responding) {
		reprise_finish_response();
	}
	if (is_damaged || CG(unclean_shutdown)) {
		zend_bailout();
	}
}

/* The same for a request whose code was cut off. What follows is the script's end, which nobody reads. */
void reprise_worker_mode_end_broken_request(void)
{
	/* PHP's report of exhausted memory may itself have ended at a client that had left: as in php_request_shutdown. */
	reprise_forget_exhausted_memory();
	reprise_add_error_header();
	STEP(php_call_shutdown_functions());
	php_free_shutdown_functions();
	STEP(php_output_end_all());
	zend_unset_timeout();
	reprise_worker_mode_stop_modules();
	STEP(php_output_deactivate());
	if (reprise_worker->is_worker && reprise_worker->responding) {
		reprise_finish_response();
	}
}
