/*
 * The end of a request in snapshot mode. It has the steps of php_request_shutdown (main/main.c) in their order, without
 * those that only free memory: the rewind does that (engine/objects.c, engine/modules.c). This runs on PHP's stack.
 */
#define _GNU_SOURCE
#include <php.h>
#include <php_main.h>
#include <php_output.h>
#include <ext/standard/basic_functions.h>
#include <rfc1867.h>
#include <SAPI.h>
#include <zend_observer.h>

#include "../request/cgi.h"
#include "../data/data.h"
#include "../engine/objects.h"
#include "../engine/oom.h"
#include "../engine/request_state.h"
#include "../engine/step.h"
#include "../request/opcache.h"
#include "../request/request.h"
#include "end.h"
#include "learn.h"
#include "../core/worker_state.h"

void snapshot_end(void)
{
	engine_begin_shutdown();
	engine_forget_exhausted_memory();
	request_opcache_look();
	request_add_error_header();
	engine_forget_ticks();
	if (ZEND_OBSERVER_ENABLED) {
		zend_observer_fcall_end_all();
	}
	php_call_shutdown_functions();
	engine_call_destructors();
	STEP(php_output_end_all());
	STEP(zend_unset_timeout());
	zend_deactivate_modules();
	STEP(php_output_deactivate());
	engine_close_resources();
	engine_free_objects();
	engine_close_persistent();
	if (SG(rfc1867_uploaded_files)) {
		STEP(destroy_uploaded_files_hash());
	}
	/* A child that a shutdown function has forked ends here: its parent sends the response. */
	if (!reprise_worker->is_worker) {
		_exit(engine_exit_status());
	}
	data_release();
	if (reprise_worker->responding) {
		request_finish_response();
	}
	snapshot_learn_note();
}
