/*
 * Functions that the boot wants to be called in each clone before its image is complete: reprise_after_fork(). This
 * runs on PHP's stack, except where it says otherwise.
 *
 * A hook that fails is tried again by later clones, but not at once, and not by many at a time: clones share memory in
 * which they note this. A hook whose connection cannot be kept for a reason that stays is not tried again.
 */
#define _GNU_SOURCE
#include <php.h>
#include <php_output.h>

#include <stdatomic.h>
#include <sys/mman.h>

#include "../engine/exceptions.h"
#include "../engine/objects.h"
#include "../engine/opcache_clock.h"
#include "../engine/request_state.h"
#include "../log.h"
#include "../options.h"
#include "../raw.h"
#include "../snapshot/random.h"
#include "../snapshot/snapshot.h"
#include "../worker.h"
#include "connections.h"

/* Seconds until a hook is tried again, and how many clones may try at a time. */
#define PAUSE_S 5
#define AT_A_TIME 4

/* Shared by the template and its clones. */
struct openings {
	_Atomic uint32_t begun, ended;
	_Atomic uint64_t not_before; /* seconds */
	_Atomic uint32_t refused;    /* a bit for each hook */
};

/* A part of the snapshot. */
static zval hooks;

ZEND_FUNCTION(reprise_after_fork)
{
	zend_fcall_info info;
	zend_fcall_info_cache cache;

	ZEND_PARSE_PARAMETERS_START(1, 1)
	Z_PARAM_FUNC(info, cache)
	ZEND_PARSE_PARAMETERS_END();
	if (!reprise_worker->is_template || reprise_options.kept == 0) {
		return;
	}
	if (Z_TYPE(hooks) != IS_ARRAY) {
		array_init(&hooks);
	}
	if (zend_hash_num_elements(Z_ARRVAL(hooks)) == MOST_HOOKS) {
		zend_throw_error(NULL, "reprise_after_fork() takes at most %d functions", MOST_HOOKS);
		RETURN_THROWS();
	}
	Z_TRY_ADDREF(info.function_name);
	add_next_index_zval(&hooks, &info.function_name);
}

void reprise_hooks_prepare(void)
{
	void *shared;

	if (Z_TYPE(hooks) != IS_ARRAY) {
		return;
	}
	if (snapshot->isolation != wire_Isolation_Rewind) {
		reprise_log_line("notice", "connections are not kept: isolation is fork, and each process serves one request");
		return;
	}
	shared = mmap(NULL, sizeof(struct openings), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared != MAP_FAILED) {
		snapshot->connections.openings = shared;
		snapshot->connections.hooks = zend_hash_num_elements(Z_ARRVAL(hooks));
	}
}

static bool call(zval *hook)
{
	zval result;
	volatile bool is_done = false;

	ZVAL_UNDEF(&result);
	zend_try
	{
		php_output_start_default();
		bool is_called = call_user_function(NULL, NULL, hook, &result, 0, NULL) == SUCCESS;
		is_done = is_called && !reprise_has_exception();
		if (!is_done && !reprise_report_exception("a function of reprise_after_fork() has failed")) {
			reprise_log_line("error", "a function of reprise_after_fork() has called exit()");
		}
		zval_ptr_dtor(&result);
		php_output_discard();
	}
	zend_catch
	{
		is_done = false;
	}
	zend_end_try();
	return is_done;
}

void reprise_run_hook(void)
{
	uint32_t number = snapshot->connections.opening - 1;
	zval *hook = zend_hash_index_find(Z_ARRVAL(hooks), number);

	reprise_random_renew();
	reprise_opcache_clock_renew();
	if (!hook || !call(hook)) {
		snapshot->connections.has_failed = true;
		return;
	}
	/* What the hook has made is a part of the snapshot from here on. */
	reprise_mark_destructed();
	reprise_note_objects();
}

/* ---- on the service stack --------------------------------------------------------------------------------------- */

bool reprise_hooks_may_run(void)
{
	return raw_seconds() >= snapshot->connections.openings->not_before;
}

void reprise_hooks_pause(void)
{
	snapshot->connections.openings->not_before = raw_seconds() + PAUSE_S;
}

bool reprise_may_open(uint32_t hook)
{
	struct openings *openings = snapshot->connections.openings;

	if ((openings->refused & 1u << hook) || !reprise_hooks_may_run()) {
		return false;
	}
	if (openings->begun - openings->ended >= AT_A_TIME) {
		/* They wait for a server, or have died. */
		openings->ended = openings->begun;
		reprise_hooks_pause();
		return false;
	}
	return true;
}

void reprise_hook_begins(void)
{
	atomic_fetch_add(&snapshot->connections.openings->begun, 1);
}

void reprise_hook_ended(void)
{
	atomic_fetch_add(&snapshot->connections.openings->ended, 1);
}

bool reprise_hook_is_refused(uint32_t hook)
{
	return atomic_fetch_or(&snapshot->connections.openings->refused, 1u << hook) & 1u << hook;
}
