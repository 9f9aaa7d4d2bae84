/*
 * reprise_cache(): one worker computes a value. Who asks meanwhile gets the old value as long as it may be stale, or
 * waits.
 *
 * | a value is | and nobody computes it                                    | and somebody computes it |
 * |------------|-----------------------------------------------------------|--------------------------|
 * | good       | it is given; sometimes, shortly before it ends, as if stale | it is given            |
 * | stale      | it is given, and computed after the response              | it is given              |
 * | not there  | it is computed                                            | wait, at most data_cache_wait |
 *
 * A value whose computation began before an invalidation, a removal or another store of the key is given to who
 * computed it, and not stored.
 */
#define _GNU_SOURCE
#include <php.h>
#include <php_output.h>
#include <ext/standard/basic_functions.h>
#include <ext/standard/head.h>
#include <zend_exceptions.h>

#include <math.h>

#include "../engine/exceptions.h"
#include "../engine/interrupt.h"
#include "../engine/request_state.h"
#include "../engine/shutdown_functions.h"
#include "../core/options.h"
#include "../core/raw.h"
#include "../core/worker_state.h"
#include "arguments.h"
#include "cluster.h"
#include "values.h"
#include "clock.h"
#include "../core/data_state.h"

enum { HITS = 0, MISSES = 1, STALE = 2, WAITS = 4, COMPUTED = 5 };
enum lease { MINE = 0, OWN = 1, HELD = 2, NO_ROOM = 3 };

/* After so long another may compute the value, too: whoever computes it has forgotten it, or has no end. */
#define LEASE_MS 60000
/* A waiter looks whether the owner of a lease lives. */
#define LOOK_MS 50
/* Values that a request computes after its response, at most; more are computed at once. */
#define MOST_LATER 64

struct computation {
	zend_string *key;
	zval callable;
	HashTable *tags; /* may be NULL */
	zend_long ttl;
	uint64_t stale;
	struct data_cache_Leased leased;
	bool has_lease;
	uint64_t age; /* milliseconds since the value was stored that this replaces; 0: there is none */
};

static struct {
	struct computation list[MOST_LATER];
	size_t count;
	uint64_t request; /* whose they are: a fatal error leaves them for none */
	bool is_last;
} later;

static enum lease ask_lease(const zend_string *key, struct data_cache_Leased *leased)
{
	return (enum lease)data_cache_lease(&reprise_data->process, (const uint8_t *)ZSTR_VAL(key), ZSTR_LEN(key), 0,
	                                    data_now(), LEASE_MS, leased);
}

static void give_back(struct computation *computation)
{
	if (computation->has_lease) {
		data_cache_release(&reprise_data->process, &computation->leased);
		computation->has_lease = false;
	}
}

/* Calls the callable with the time to live, which it may change. False: it threw. */
static bool call(struct computation *computation, zval *result)
{
	zval ttl;

	ZVAL_NEW_EMPTY_REF(&ttl);
	ZVAL_LONG(Z_REFVAL(ttl), computation->ttl);
	ZVAL_UNDEF(result);
	bool is_called = call_user_function(NULL, NULL, &computation->callable, result, 1, &ttl) == SUCCESS;
	if (is_called && !engine_has_exception()) {
		computation->ttl = zval_get_long(Z_REFVAL(ttl));
	}
	zval_ptr_dtor(&ttl);
	return is_called && !engine_has_exception() && !Z_ISUNDEF_P(result);
}

/* Computes and stores, unless another node does it: that has `wait` milliseconds. `age`: of the value that is renewed;
 * 0: there is none. False: an exception was thrown, or another node renews it. The lease is given back in any case but
 * that of a fatal error, when the end of the request does it. */
static bool compute(struct computation *computation, uint64_t wait, uint64_t age, zval *result)
{
	int talk = -1;
	struct data_tags tags;
	struct data_order order = {.key = computation->key, .stale = computation->stale, .condition = 2};

	/* Everything from here on that is done to the key or its tags concerns the value. */
	if (reprise_data->is_attached) {
		order.number =
		    data_cache_touches(&reprise_data->process, (const uint8_t *)ZSTR_VAL(order.key), ZSTR_LEN(order.key));
		order.flush = data_cache_flushes(&reprise_data->process);
	}
	if (!data_read_tags(&tags, computation->tags, 5)) {
		give_back(computation);
		return false;
	}
	order.tags = tags.tags;
	order.tag_count = tags.count;
	/* It may take long, and what this process got is copied. */
	if (reprise_data->is_attached) {
		data_has_copied();
		enum cluster_answer turn = data_cluster_turn(&order, wait, age, &talk, result);
		if (turn == CLUSTER_VALUE || (turn == CLUSTER_HELD && age > 0) || engine_has_exception()) {
			data_cluster_computed(talk, &order, NULL, NULL);
			give_back(computation);
			return turn == CLUSTER_VALUE;
		}
	}
	uint64_t began = raw_nanoseconds();
	bool is_computed = call(computation, result);
	if (is_computed && reprise_data->is_attached) {
		uint64_t took = (raw_nanoseconds() - began) / 1000;
		order.cost = took > UINT32_MAX ? UINT32_MAX : (uint32_t)took;
		data_cache_count(&reprise_data->process, COMPUTED);
		/* A callable that sets the time to 0 or less wants its result not to be kept. */
		if (computation->ttl > 0 || computation->ttl == ZEND_LONG_MAX) {
			order.ttl = computation->ttl >= DATA_MOST_SECONDS ? 0 : (uint64_t)computation->ttl * 1000;
			is_computed = data_store_value(&order, result) != DATA_THROWN;
			if (is_computed) {
				data_cluster_computed(talk, &order, computation->tags, result);
				talk = -1;
			}
		}
	}
	data_cluster_computed(talk, &order, NULL, NULL);
	give_back(computation);
	if (!is_computed) {
		zval_ptr_dtor(result);
		ZVAL_UNDEF(result);
	}
	return is_computed;
}

/* ---- after the response ---------------------------------------------------------------------------------------------
 */

static void forget(struct computation *computation)
{
	zend_string_release(computation->key);
	zval_ptr_dtor(&computation->callable);
	if (computation->tags) {
		zend_array_release(computation->tags);
	}
}

/* A shutdown function. Others that were registered after it may still print, so it comes last. */
static ZEND_FUNCTION(reprise_cache_later)
{
	ZEND_PARSE_PARAMETERS_NONE();
	if (!later.is_last) {
		later.is_last = true;
		engine_shutdown_function_add(ZEND_FN(reprise_cache_later));
		return;
	}
	php_output_end_all();
	php_header();
	reprise_data->finish_response();
	for (size_t i = 0; i < later.count; i++) {
		zval result;
		php_output_start_default();
		bool is_computed = compute(&later.list[i], 0, later.list[i].age, &result);
		php_output_discard();
		if (is_computed) {
			zval_ptr_dtor(&result);
		} else if (!engine_report_exception("a value of the data cache could not be renewed")) {
			break;
		}
		forget(&later.list[i]);
	}
	later.count = 0;
}

/* False: there is no end of a request at which it could be done. */
static bool do_later(const struct computation *computation)
{
	if (later.request != reprise_worker->requests) {
		later.request = reprise_worker->requests;
		later.count = 0;
		later.is_last = false;
	}
	if (!reprise_worker->is_worker || !reprise_worker->responding || later.is_last || later.count == MOST_LATER) {
		return false;
	}
	struct computation *to = &later.list[later.count];
	*to = *computation;
	zend_string_addref(to->key);
	Z_TRY_ADDREF(to->callable);
	if (to->tags) {
		GC_TRY_ADDREF(to->tags);
	}
	if (later.count++ == 0) {
		engine_shutdown_function_add(ZEND_FN(reprise_cache_later));
	}
	return true;
}

/* ---- the function
 * ---------------------------------------------------------------------------------------------------- */

/*
 * Whether a good value is to be renewed already: the nearer its end, and the longer it takes to compute, the likelier,
 * so that of many workers one begins before the end (Vattani, Chierichetti, Lowenstein: Optimal Probabilistic Cache
 * Stampede Prevention, 2015). The clock's last digits are random enough.
 */
static bool is_early(const struct data_cache_Value *found, double early, uint64_t now)
{
	if (found->soft == 0 || early <= 0) {
		return false;
	}
	uint64_t mixed = (raw_nanoseconds() ^ (uint64_t)reprise_worker->pid << 32) * UINT64_C(0x9e3779b97f4a7c15);
	double chance = ((double)(mixed >> 11) + 1) / 9007199254740993.0;

	return (double)now - (double)found->cost / 1000.0 * early * log(chance) >= (double)found->soft;
}

static void throw_own(const zend_string *key)
{
	zend_throw_error(NULL, "reprise_cache(): the computation of \"%s\" asks for its own value", ZSTR_VAL(key));
}

/* A value that is there, or one that replaces it. False: it cannot be read. */
static bool give_found(struct computation *computation, struct data_cache_Value *found, double early, zval *result)
{
	uint64_t now = data_now();
	bool is_stale = found->soft != 0 && found->soft <= now;
	zval old;

	if (!data_give(&old, found)) {
		return false;
	}
	if (!is_stale && !is_early(found, early, now)) {
		data_cache_count(&reprise_data->process, HITS);
		ZVAL_COPY_VALUE(result, &old);
		return true;
	}
	if (ask_lease(computation->key, &computation->leased) == MINE) {
		computation->has_lease = true;
		computation->age = now > found->stored ? now - found->stored : 1;
		if (computation->stale == 0 || !do_later(computation)) {
			if (compute(computation, 0, computation->age, result)) {
				zval_ptr_dtor(&old);
				return true;
			}
			(void)engine_report_exception("a value of the data cache could not be renewed, and the old one is used");
		}
	}
	data_cache_count(&reprise_data->process, is_stale ? STALE : HITS);
	ZVAL_COPY_VALUE(result, &old);
	return true;
}

/* Waits for another who computes the value. True: `found` is there. */
static bool await(const struct computation *computation, struct data_cache_Value *found,
                  const struct data_cache_Leased *leased, uint64_t until)
{
	uint64_t now = data_now();

	if (now >= until) {
		return false;
	}
	reprise_data->wait = (struct data_wait){ZSTR_VAL(computation->key), ZSTR_LEN(computation->key), leased->owner};
	data_cache_wait(&reprise_data->process, leased, until - now < LOOK_MS ? (uint32_t)(until - now) : LOOK_MS);
	reprise_data->wait.key = NULL;
	return data_find(computation->key, found);
}

/* A value that throws when it is unserialized is as none: its class may be another one by now. False: exit() was
 * called. */
static bool may_compute(struct computation *computation)
{
	if (engine_report_exception("a value of the data cache cannot be read, and is computed anew")) {
		return true;
	}
	give_back(computation);
	return false;
}

static void answer(struct computation *computation, double early, zval *result)
{
	struct data_cache_Value found;
	uint64_t began = data_now(), until = began + reprise_options.data_wait;
	bool has_waited = false;

	bool is_found = data_find(computation->key, &found);
	for (;;) {
		if (is_found && give_found(computation, &found, early, result)) {
			return;
		}
		if (!may_compute(computation)) {
			return;
		}
		enum lease lease = computation->has_lease ? MINE : ask_lease(computation->key, &computation->leased);
		if (lease == OWN) {
			throw_own(computation->key);
			return;
		}
		if (lease == MINE && !computation->has_lease) {
			/* Another may have stored it between the look-up and the lease. */
			computation->has_lease = true;
			is_found = data_find(computation->key, &found);
			if (is_found && data_give(result, &found)) {
				give_back(computation);
				data_cache_count(&reprise_data->process, HITS);
				return;
			}
			if (!may_compute(computation)) {
				return;
			}
		}
		bool is_over = data_now() >= until || engine_is_interrupted();
		if (lease != HELD || is_over) {
			uint64_t now = data_now();
			data_cache_count(&reprise_data->process, MISSES);
			(void)compute(computation, is_over || now >= until ? 0 : until - now, 0, result);
			return;
		}
		if (!has_waited) {
			has_waited = true;
			data_cache_count(&reprise_data->process, WAITS);
		}
		is_found = await(computation, &found, &computation->leased, until);
	}
}

ZEND_FUNCTION(reprise_cache)
{
	zend_fcall_info callable;
	zend_fcall_info_cache cache;
	struct computation computation = {0};
	struct data_tags tags;
	zend_long ttl = 0, stale = 0;
	uint64_t unused;
	double early = 1;

	ZEND_PARSE_PARAMETERS_START(2, 6)
	Z_PARAM_STR(computation.key)
	Z_PARAM_FUNC(callable, cache)
	Z_PARAM_OPTIONAL
	Z_PARAM_LONG(ttl)
	Z_PARAM_LONG(stale)
	Z_PARAM_ARRAY_HT(computation.tags)
	Z_PARAM_DOUBLE(early)
	ZEND_PARSE_PARAMETERS_END();
	zend_release_fcall_info_cache(&cache);
	if (!data_key(computation.key, 1) || !data_seconds(ttl, 3, &unused) || !data_seconds(stale, 4, &computation.stale)
	    || !data_read_tags(&tags, computation.tags, 5)) {
		RETURN_THROWS();
	}
	if (!(early >= 0 && early <= 1000)) {
		zend_argument_value_error(6, "must be between 0 and 1000");
		RETURN_THROWS();
	}
	ZVAL_COPY_VALUE(&computation.callable, &callable.function_name);
	computation.ttl = ttl == 0 ? ZEND_LONG_MAX : ttl;
	zval result;
	ZVAL_NULL(&result);
	if (reprise_data->is_attached) {
		answer(&computation, early, &result);
		data_has_copied();
	} else {
		(void)compute(&computation, 0, 0, &result);
	}
	if (engine_has_exception()) {
		zval_ptr_dtor(&result);
		RETURN_THROWS();
	}
	RETURN_COPY_VALUE(&result);
}
