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

#include "../cgi.h"
#include "../data/data.h"
#include "../engine/objects.h"
#include "../engine/oom.h"
#include "../engine/request_state.h"
#include "../engine/step.h"
#include "../opcache.h"
#include "../request.h"
#include "../worker.h"
#include "end.h"
#include "learn.h"

void reprise_end(void)
{
	reprise_begin_shutdown();
	reprise_forget_exhausted_memory();
	reprise_opcache_look();
	reprise_add_error_header();
	reprise_forget_ticks();
	if (ZEND_OBSERVER_ENABLED) {
		zend_observer_fcall_end_all();
	}
	php_call_shutdown_functions();
	reprise_call_destructors();
	STEP(php_output_end_all());
	STEP(zend_unset_timeout());
	zend_deactivate_modules();
	STEP(php_output_deactivate());
	reprise_close_resources();
	reprise_free_objects();
	reprise_close_persistent();
	if (SG(rfc1867_uploaded_files)) {
		STEP(destroy_uploaded_files_hash());
	}
	/* A child that a shutdown function has forked ends here: its parent sends the response. */
	if (!reprise_worker->is_worker) {
		_exit(reprise_exit_status());
	}
	reprise_data_release();
	if (reprise_worker->responding) {
		reprise_finish_response();
	}
	reprise_learn_note();
}
