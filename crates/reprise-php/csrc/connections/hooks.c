/*
 * Functions that the boot wants to be called in each clone before its image is complete: reprise_after_fork(). This
 * runs on PHP's stack, except where it says otherwise.
 *
 * A hook that fails is tried again, by one clone at a time, and after pauses that grow: clones share memory in which
 * they note this. A hook whose connection cannot be kept for a reason that stays is not tried again. A hook that takes
 * longer than PATIENCE_S ends its clone, and that is a failure, too: the next clone serves without hooks.
 */
#define _GNU_SOURCE
#include <php.h>
#include <php_output.h>
#include <SAPI.h>

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "../engine/exceptions.h"
#include "../engine/modules.h"
#include "../engine/objects.h"
#include "../engine/opcache_clock.h"
#include "../engine/request_state.h"
#include "../core/log.h"
#include "../core/options.h"
#include "../core/raw.h"
#include "../engine/random.h"
#include "../core/snapshot_state.h"
#include "../core/worker_state.h"
#include "connections.h"

/* Seconds until hooks are tried again: twice as many after each failure. */
#define PAUSE_S 5
#define LONGEST_PAUSE_S 300
/* How many clones may run hooks at a time, if none has failed: whoever comes then serves without them. If the last of
 * so many has begun longer ago than any hook takes, they have died. */
#define AT_A_TIME 16
#define LONGEST_S 30
/* Seconds for a hook. */
#define PATIENCE_S 3
/* So many clones one after the other whose first requests have closed their connections are a failure. */
#define SHORT_LIVES 16

/* Shared by the template and its clones. */
struct openings {
	_Atomic uint32_t begun, ended;
	_Atomic uint64_t last_begun; /* seconds */
	_Atomic uint32_t failures;   /* since hooks have run well */
	_Atomic uint64_t not_before; /* seconds */
	_Atomic bool may_try;        /* a clone has left so that the next one tries */
	_Atomic uint32_t short_lives;
	_Atomic uint32_t refused; /* a bit for each hook */
	_Atomic uint32_t place;   /* the lowest that is free; NO_PLACE: a clone has left for it */
};

#define NO_PLACE UINT32_MAX

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

void connections_hooks_prepare(void)
{
	void *shared;

	if (Z_TYPE(hooks) != IS_ARRAY) {
		return;
	}
	if (!snapshot_rewinds()) {
		reprise_log_line("notice", "connections are not kept: isolation is fork, and each process serves one request");
		return;
	}
	shared = mmap(NULL, sizeof(struct openings), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared != MAP_FAILED) {
		snapshot->connections.openings = shared;
		snapshot->connections.openings->place = NO_PLACE;
		snapshot->connections.hooks = zend_hash_num_elements(Z_ARRVAL(hooks));
	}
}

static bool call(zval *hook)
{
	zval result;
	volatile bool is_done = false;
	int level = php_output_get_level();

	ZVAL_UNDEF(&result);
	zend_try
	{
		php_output_start_default();
		bool is_called = call_user_function(NULL, NULL, hook, &result, 0, NULL) == SUCCESS;
		is_done = is_called && !engine_has_exception();
		if (!is_done && !engine_report_exception("a function of reprise_after_fork() has failed")) {
			reprise_log_line("error", "a function of reprise_after_fork() has called exit()");
		}
		zval_ptr_dtor(&result);
		while (php_output_get_level() > level) {
			php_output_discard();
		}
	}
	zend_catch
	{
		is_done = false;
	}
	zend_end_try();
	return is_done;
}

/* The clone ends, and the next one serves without hooks. On PHP's stack; raw system calls only. */
static void give_up(int signal)
{
	(void)signal;
	connections_hooks_failed();
	ipc_recycled(&reprise_worker->ipc, ipc_Recycle_Connection);
	reprise_service_log("warning", "a function of reprise_after_fork() has not returned within 3 s",
	                    "a fresh worker takes the place of this one, and requests open their own connections");
	RAW1(SYS_exit_group, ipc_Exit_Recycle);
}

static void set_alarm(time_t seconds)
{
	struct itimerval value = {.it_value = {.tv_sec = seconds}};
	sigset_t alarm;

	if (seconds == 0) {
		/* First, or what is on its way would end the process. */
		setitimer(ITIMER_REAL, &value, NULL);
	}
	signal(SIGALRM, seconds ? give_up : SIG_DFL);
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &alarm, NULL);
	setitimer(ITIMER_REAL, &value, NULL);
}

void connections_run_hook(void)
{
	uint32_t number = snapshot->connections.opening - 1;
	zval *hook = zend_hash_index_find(Z_ARRVAL(hooks), number);

	engine_random_renew();
	SG(global_request_time) = 0;
	engine_opcache_clock_renew();
	set_alarm(PATIENCE_S);
	bool is_done = hook && call(hook);
	set_alarm(0);
	engine_modules_forget_time();
	if (!is_done) {
		snapshot->connections.has_failed = true;
		return;
	}
	/* What the hook has made is a part of the snapshot from here on. */
	engine_hold_new_objects();
	engine_mark_destructed();
	engine_note_objects();
}

/* ---- on the service stack --------------------------------------------------------------------------------------- */

/* When hooks may be tried again after so many failures. */
static uint64_t after_pause(uint32_t failures)
{
	uint64_t pause = (uint64_t)PAUSE_S << (failures < 7 ? failures : 7);

	return raw_seconds() + (pause < LONGEST_PAUSE_S ? pause : LONGEST_PAUSE_S);
}

void connections_hooks_failed(void)
{
	struct openings *openings = snapshot->connections.openings;

	openings->may_try = false;
	openings->not_before = after_pause(atomic_fetch_add(&openings->failures, 1));
}

static bool has_room(const struct openings *openings)
{
	return (int32_t)(openings->begun - openings->ended) < AT_A_TIME;
}

void connections_hooks_went_well(void)
{
	struct openings *openings = snapshot->connections.openings;

	openings->failures = 0;
	openings->not_before = 0;
}

bool connections_hooks_may_run(void)
{
	struct openings *openings = snapshot->connections.openings;

	if (openings->failures > 0) {
		return atomic_exchange(&openings->may_try, false);
	}
	if (!has_room(openings) && raw_seconds() - openings->last_begun > LONGEST_S) {
		atomic_store(&openings->ended, openings->begun);
		connections_hooks_failed();
	}
	return has_room(openings) && openings->failures == 0;
}

/* One clone at a time makes room for one that tries. If hooks have run well since, all do. */
bool connections_hooks_want_try(void)
{
	struct openings *openings = snapshot->connections.openings;
	uint64_t before = openings->not_before;

	if (openings->failures == 0) {
		return has_room(openings);
	}
	/* Whoever tries may end without a word. */
	if (raw_seconds() < before
	    || !atomic_compare_exchange_strong(&openings->not_before, &before, after_pause(openings->failures))) {
		return false;
	}
	openings->may_try = true;
	return true;
}

/* In the template. */
void connections_hooks_offer(uint32_t place)
{
	struct openings *openings = snapshot->connections.openings;

	if (openings) {
		openings->place = place;
	}
}

/* One clone makes room for one that has a lower place. */
bool connections_hooks_want_one_more(void)
{
	struct openings *openings = snapshot->connections.openings;
	uint32_t place = openings->place;

	return place < reprise_options.kept && atomic_compare_exchange_strong(&openings->place, &place, NO_PLACE);
}

void connections_note_life(bool is_short)
{
	struct openings *openings = snapshot->connections.openings;

	if (!is_short) {
		openings->short_lives = 0;
	} else if (atomic_fetch_add(&openings->short_lives, 1) + 1 >= SHORT_LIVES) {
		openings->short_lives = 0;
		connections_hooks_failed();
	}
}

void connections_hook_begins(void)
{
	snapshot->connections.openings->last_begun = raw_seconds();
	atomic_fetch_add(&snapshot->connections.openings->begun, 1);
}

void connections_hook_ended(void)
{
	atomic_fetch_add(&snapshot->connections.openings->ended, 1);
}

bool connections_is_refused(uint32_t hook)
{
	return snapshot->connections.openings->refused & 1u << hook;
}

bool connections_refuse_hook(uint32_t hook)
{
	return atomic_fetch_or(&snapshot->connections.openings->refused, 1u << hook) & 1u << hook;
}
