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
#include "../engine/output.h"
#include "../engine/request_state.h"
#include "../engine/superglobals.h"
#include "../process/loaded.h"
#include "../core/options.h"
#include "../request/request.h"
#include "compact.h"
#include "held.h"
#include "learn.h"
#include "pages.h"
#include "../engine/random.h"
#include "refuse.h"
#include "serve.h"
#include "../core/snapshot_state.h"
#include "template.h"
#include "warm.h"
#include "ipc.h"
#include "../core/head.h"
#include "../core/boot_failure.h"
#include "../request/additions.h"
#include "../core/recycle.h"
#include "../core/worker_state.h"

static struct {
	char *output;
	size_t output_size;
	bool was_sent; /* headers: by output that was not buffered */
	sapi_headers_struct headers;
	zval callback;
} boot;

/* ---- taking ----------------------------------------------------------------------------------------------------- */

void snapshot_boot_output(const char *bytes, size_t size)
{
	char *grown = realloc(boot.output, boot.output_size + size);

	if (!grown) {
		reprise_boot_failed("the output of the boot does not fit into memory", NULL);
	}
	memcpy(grown + boot.output_size, bytes, size);
	boot.output = grown;
	boot.output_size += size;
}

/* ZendMM gives an empty chunk of 2 MiB back to the kernel four times, and keeps it from then on. With that chunk in the
 * snapshot, a request that needs one more chunk makes no mapping. */
static void keep_spare_chunk(void)
{
	for (int i = 0; i < 6; i++) {
		efree(emalloc(1536 * 1024));
	}
}

void snapshot_serve_prepare(void)
{
	engine_report_captured(snapshot->is_per_host, "below reprise_snapshot()");
	connections_hooks_prepare();
	reprise_recycle_begins_by(connections_say_goodbye);
	request_note_additions();
	request_close_script();
	snapshot_settle_what_php_holds();
	php_clear_stat_cache(0, NULL, 0);
	engine_modules_forget_time();
	/* Otherwise the end of each request would set the locale, and the rewind would have to look at all mappings. */
	engine_keep_locale();
	snapshot_hold_locale();
	zend_unset_timeout();
	/* PHP maps the file of a time zone when it first needs the zone. In the snapshot, that is no fault for each
	 * request. */
	get_timezone_info();
	snapshot_warm_libraries();
	if (!engine_heap_make_room()) {
		keep_spare_chunk();
	}
	engine_random_prepare();
	engine_modules_leave_memory();
	snapshot_compact();
	engine_note_objects();
	snapshot_learn_prepare();
	process_loaded_prepare();
	process_loaded_note();
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
		engine_output_disable();
	} else if (boot.output_size > 0) {
		sapi_module.ub_write(boot.output, boot.output_size);
	}
}

/* In classic mode PHP reads a request before it knows a handler of the application. The same holds here: a warning
 * about the request becomes no exception of the application. */
static void parse_request(void)
{
	zval handler;

	engine_error_handler_hide(&handler);
	engine_begin_startup();
	void *frame = engine_leave_code();
	sapi_activate();
	/* sapi_activate has dropped the headers of the boot. It also sets the protocol to HTTP/1.0. As under PHP-FPM, that
	 * stays so: redirects are 302 whatever the method. */
	SG(sapi_headers) = boot.headers;
	ZVAL_COPY_VALUE(&SG(callback_func), &boot.callback);
	php_hash_environment();
	engine_return_to_code(frame);
	engine_end_startup();
	engine_error_handler_show(&handler);
}

static void serve(void)
{
	reprise_worker->stage = REPRISE_STARTING;
	request_describe(reprise_head());
	engine_forget_outcome();
	engine_start_time_limit(false);
	parse_request();
	request_fill_superglobals(false);
	engine_random_renew();
	if (reprise_worker->body_broken) {
		zend_bailout();
	}
	request_script_begins();
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
		if (reprise_worker->is_worker && snapshot->image.is_taken) {
			php_error_docref(NULL, E_WARNING, "the snapshot was taken before: this call does nothing");
		} else if (reprise_worker->is_worker && reprise_worker->responding) {
			ipc_note(&reprise_worker->ipc, ipc_NOTE_SNAPSHOT | (per_host ? ipc_NOTE_HOST : 0));
		}
		return;
	}
	if (getpid() != reprise_worker->pid) {
		/* A child that the boot has forked. */
		return;
	}
	if (engine_is_in_destructor()) {
		reprise_boot_failed("reprise_snapshot() was called in a destructor", "call it from the script itself");
	}
	if (engine_is_in_shutdown()) {
		reprise_boot_failed("reprise_snapshot() was called in a shutdown function", "call it from the script itself");
	}
	if (per_host && !reprise_options.hosts) {
		reprise_boot_failed("the script asks for a snapshot per host, and no host is configured",
		                    "name the hosts: hosts = [\"www.example.org\"]");
	}
	snapshot->is_per_host = per_host;
	if (!snapshot_collect_cycles()) {
		return; /* a destructor has thrown */
	}
	snapshot_serve_prepare();
	snapshot_refuse_what_cannot_be_rewound();
	getcontext(&snapshot->service);
	snapshot->service.uc_stack.ss_sp = reprise_service_stack;
	snapshot->service.uc_stack.ss_size = SERVICE_STACK;
	snapshot->service.uc_link = NULL;
	makecontext(&snapshot->service, snapshot_template_loop, 0);
	snapshot->hot.compares_lines = can_compare_lines();
	snapshot_keep_free_slots();
	snapshot_make_room();
	swapcontext(&snapshot->php, &snapshot->service);
	while (snapshot->learned.is_learning || snapshot->connections.opening) {
		if (snapshot->connections.opening) {
			connections_run_hook();
		} else {
			snapshot_learn_patterns();
			snapshot_keep_free_slots();
			snapshot_make_room();
		}
		swapcontext(&snapshot->php, &snapshot->service);
	}
	/* In a clone, for a request. */
	serve();
}
