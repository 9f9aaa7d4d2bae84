/*
 * reprise_snapshot(), and how a request gets into PHP's globals after the call. This runs on PHP's stack.
 *
 * A synthetic request has started the script. The input of each request replaces the input of that one. What the boot
 * itself has added to $_SERVER and $_ENV stays, as Dotenv does, unless the request brings a value of its own. Headers
 * and output of the boot are part of every response, as they are under PHP-FPM.
 */
#define _GNU_SOURCE
#include <php.h>
#include <php_main.h>
#include <php_output.h>
#include <php_variables.h>
#include <SAPI.h>
#include <ext/date/php_date.h>
#include <ext/standard/php_filestat.h>

#include <stdlib.h>
#include <string.h>

#include "../connections/connections.h"
#include "../engine/captured.h"
#include "../engine/frames.h"
#include "../engine/handlers.h"
#include "../engine/heap.h"
#include "../engine/modules.h"
#include "../engine/objects.h"
#include "../engine/opcache_clock.h"
#include "../engine/output.h"
#include "../engine/request_state.h"
#include "../engine/superglobals.h"
#include "../loaded.h"
#include "../log.h"
#include "../options.h"
#include "../request.h"
#include "../variables.h"
#include "../worker.h"
#include "compact.h"
#include "held.h"
#include "learn.h"
#include "pages.h"
#include "random.h"
#include "refuse.h"
#include "serve.h"
#include "snapshot.h"
#include "template.h"
#include "warm.h"
#include "wire.h"

static struct {
	char *output;
	size_t output_size;
	bool was_sent; /* headers: by output that was not buffered */
	sapi_headers_struct headers;
	zval callback;
	bool has_server, has_env, has_request;
	zval server, env; /* what the boot has added */
} boot;

/* ---- taking ----------------------------------------------------------------------------------------------------- */

void reprise_boot_output(const char *bytes, size_t size)
{
	char *grown = realloc(boot.output, boot.output_size + size);

	if (!grown) {
		reprise_boot_failed("the output of the boot does not fit into memory", NULL);
	}
	memcpy(grown + boot.output_size, bytes, size);
	boot.output = grown;
	boot.output_size += size;
}

/* Entries that the boot has added to an array or changed in it. */
static void find_additions(const char *name, zval *additions, zval *now, const zval *brought)
{
	zend_string *key;
	zend_ulong number;
	zval *value;

	array_init(additions);
	ZEND_HASH_FOREACH_KEY_VAL(Z_ARRVAL_P(now), number, key, value)
	{
		zval *before = NULL;
		if (Z_TYPE_P(brought) == IS_ARRAY) {
			before = key ? zend_hash_find(Z_ARRVAL_P(brought), key) : zend_hash_index_find(Z_ARRVAL_P(brought), number);
		}
		if (before && zend_is_identical(before, value)) {
			continue;
		}
		if (before && key) {
			reprise_log_line("notice", "the boot has changed %s['%s']: the value of each request replaces the change",
			                 name, ZSTR_VAL(key));
		}
		Z_TRY_ADDREF_P(value);
		if (key) {
			zend_hash_update(Z_ARRVAL_P(additions), key, value);
		} else {
			zend_hash_index_update(Z_ARRVAL_P(additions), number, value);
		}
	}
	ZEND_HASH_FOREACH_END();
}

static void add_missing(const char *name, size_t size, const zval *additions)
{
	zval *array = reprise_superglobal(name, size);

	if (array && zend_hash_num_elements(Z_ARRVAL_P(additions)) > 0) {
		SEPARATE_ARRAY(array);
		zend_hash_merge(Z_ARRVAL_P(array), Z_ARRVAL_P(additions), zval_add_ref, 0);
	}
}

/* ZendMM gives an empty chunk of 2 MiB back to the kernel four times, and keeps it from then on. With that chunk in the
 * snapshot, a request that needs one more chunk makes no mapping. */
static void keep_spare_chunk(void)
{
	for (int i = 0; i < 6; i++) {
		efree(emalloc(1536 * 1024));
	}
}

/* Notes what the boot has added to the superglobals. Each request gets it. */
void reprise_note_additions(void)
{
	zval *server = reprise_superglobal(ZEND_STRL("_SERVER")), *env = reprise_superglobal(ZEND_STRL("_ENV"));

	if (server) {
		boot.has_server = true;
		find_additions("$_SERVER", &boot.server, server, reprise_brought(TRACK_VARS_SERVER));
	}
	if (env) {
		boot.has_env = true;
		find_additions("$_ENV", &boot.env, env, reprise_brought(TRACK_VARS_ENV));
	}
	boot.has_request = reprise_superglobal(ZEND_STRL("_REQUEST")) != NULL;
}

/* PHP makes $_SERVER, $_ENV and $_REQUEST when it compiles code that names them. A request does not compile again what
 * the boot has compiled. */
void reprise_fill_superglobals(bool all)
{
	if (all || boot.has_server) {
		zend_is_auto_global(ZSTR_KNOWN(ZEND_STR_AUTOGLOBAL_SERVER));
	}
	if (boot.has_server) {
		add_missing(ZEND_STRL("_SERVER"), &boot.server);
	}
	if (all || boot.has_env) {
		zend_is_auto_global(ZSTR_KNOWN(ZEND_STR_AUTOGLOBAL_ENV));
	}
	if (boot.has_env) {
		add_missing(ZEND_STRL("_ENV"), &boot.env);
	}
	if (all || boot.has_request) {
		zend_is_auto_global(ZSTR_KNOWN(ZEND_STR_AUTOGLOBAL_REQUEST));
	}
	reprise_opcache_clock_renew();
}

void reprise_serve_prepare(void)
{
	reprise_report_captured(snapshot->is_per_host, "below reprise_snapshot()");
	reprise_hooks_prepare();
	reprise_note_additions();
	reprise_close_script();
	reprise_settle_what_php_holds();
	php_clear_stat_cache(0, NULL, 0);
	reprise_modules_forget_time();
	/* Otherwise the end of each request would set the locale, and the rewind would have to look at all mappings. */
	reprise_keep_locale();
	reprise_hold_locale();
	zend_unset_timeout();
	/* PHP maps the file of a time zone when it first needs the zone. In the snapshot, that is no fault for each
	 * request. */
	get_timezone_info();
	reprise_warm_libraries();
	if (!reprise_heap_make_room()) {
		keep_spare_chunk();
	}
	reprise_random_prepare();
	reprise_modules_leave_memory();
	reprise_compact();
	reprise_note_objects();
	reprise_learn_prepare();
	reprise_loaded_prepare();
	reprise_loaded_note();
	boot.was_sent = SG(headers_sent);
	boot.headers = SG(sapi_headers);
	ZVAL_COPY_VALUE(&boot.callback, &SG(callback_func));
}

/* ---- serving ---------------------------------------------------------------------------------------------------- */

static void replay_boot(void)
{
	if (!boot.was_sent) {
		return;
	}
	SG(headers_sent) = 0;
	sapi_send_headers();
	if (SG(request_info).headers_only) {
		reprise_output_disable();
	} else if (boot.output_size > 0) {
		sapi_module.ub_write(boot.output, boot.output_size);
	}
}

/* In classic mode PHP reads a request before it knows a handler of the application. The same holds here: a warning
 * about the request becomes no exception of the application. */
static void parse_request(void)
{
	zval handler;

	reprise_error_handler_hide(&handler);
	reprise_begin_startup();
	void *frame = reprise_leave_code();
	sapi_activate();
	/* sapi_activate has dropped the headers of the boot. It also sets the protocol to HTTP/1.0. As under PHP-FPM, that
	 * stays so: redirects are 302 whatever the method. */
	SG(sapi_headers) = boot.headers;
	ZVAL_COPY_VALUE(&SG(callback_func), &boot.callback);
	php_hash_environment();
	reprise_return_to_code(frame);
	reprise_end_startup();
	reprise_error_handler_show(&handler);
}

static void serve(void)
{
	reprise_worker->stage = REPRISE_STARTING;
	reprise_describe_request(reprise_head());
	reprise_forget_outcome();
	reprise_start_time_limit(false);
	parse_request();
	reprise_fill_superglobals(false);
	reprise_random_renew();
	if (reprise_worker->body_broken) {
		zend_bailout();
	}
	reprise_script_begins();
	replay_boot();
}

/* ---- the function ----------------------------------------------------------------------------------------------- */

ZEND_FUNCTION(reprise_snapshot)
{
	bool per_host = false;

	ZEND_PARSE_PARAMETERS_START(0, 1)
	Z_PARAM_OPTIONAL
	Z_PARAM_BOOL(per_host)
	ZEND_PARSE_PARAMETERS_END();
	if (!reprise_worker->is_template) {
		if (reprise_worker->is_worker && snapshot->is_taken) {
			php_error_docref(NULL, E_WARNING, "the snapshot was taken before: this call does nothing");
		} else if (reprise_worker->is_worker && reprise_worker->responding) {
			wire_note(&reprise_worker->wire, wire_NOTE_SNAPSHOT | (per_host ? wire_NOTE_HOST : 0));
		}
		return;
	}
	if (getpid() != reprise_worker->pid) {
		/* A child that the boot has forked. */
		return;
	}
	if (reprise_is_in_destructor()) {
		reprise_boot_failed("reprise_snapshot() was called in a destructor", "call it from the script itself");
	}
	if (reprise_is_in_shutdown()) {
		reprise_boot_failed("reprise_snapshot() was called in a shutdown function", "call it from the script itself");
	}
	if (per_host && !reprise_options.hosts) {
		reprise_boot_failed("the script asks for a snapshot per host, and no host is configured",
		                    "name the hosts: hosts = [\"www.example.org\"]");
	}
	snapshot->is_per_host = per_host;
	if (!reprise_collect_cycles()) {
		return; /* a destructor has thrown */
	}
	reprise_serve_prepare();
	reprise_refuse_what_cannot_be_rewound();
	getcontext(&snapshot->service);
	snapshot->service.uc_stack.ss_sp = reprise_service_stack;
	snapshot->service.uc_stack.ss_size = SERVICE_STACK;
	snapshot->service.uc_link = NULL;
	makecontext(&snapshot->service, reprise_template_loop, 0);
	snapshot->compares_lines = can_compare_lines();
	reprise_keep_free_slots();
	reprise_make_room();
	swapcontext(&snapshot->php, &snapshot->service);
	while (snapshot->is_learning || snapshot->connections.opening) {
		if (snapshot->connections.opening) {
			reprise_run_hook();
		} else {
			reprise_learn_patterns();
			reprise_keep_free_slots();
			reprise_make_room();
		}
		swapcontext(&snapshot->php, &snapshot->service);
	}
	/* In a clone, for a request. */
	serve();
}
