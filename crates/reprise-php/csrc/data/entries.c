/* The functions that find, store and remove values. reprise.stub.php says what they are. */
#define _GNU_SOURCE
#include <php.h>
#include <zend_exceptions.h>

#include "../engine/request_state.h"
#include "arguments.h"
#include "cluster.h"
#include "values.h"
#include "clock.h"
#include "../core/data_state.h"

enum { HITS = 0, MISSES = 1, STALE = 2 };

bool data_key(const zend_string *key, uint32_t argument)
{
	if (ZSTR_LEN(key) == 0 || ZSTR_LEN(key) > data_cache_MOST_KEY) {
		zend_argument_value_error(argument, "must be 1 to %d bytes long", data_cache_MOST_KEY);
		return false;
	}
	return true;
}

bool data_read_tags(struct data_tags *tags, HashTable *names, uint32_t argument)
{
	zval *name;

	*tags = (struct data_tags){0};
	if (!names) {
		return true;
	}
	if (zend_hash_num_elements(names) > data_cache_MOST_VALUE_TAGS) {
		zend_argument_value_error(argument, "must have at most %d tags", data_cache_MOST_VALUE_TAGS);
		return false;
	}
	ZEND_HASH_FOREACH_VAL(names, name)
	{
		ZVAL_DEREF(name);
		if (Z_TYPE_P(name) != IS_STRING || Z_STRLEN_P(name) == 0 || Z_STRLEN_P(name) > data_cache_MOST_KEY) {
			zend_argument_value_error(argument, "must have strings of 1 to %d bytes", data_cache_MOST_KEY);
			return false;
		}
		if (reprise_data->is_attached
		    && data_cache_tag(&reprise_data->process, (const uint8_t *)Z_STRVAL_P(name), Z_STRLEN_P(name),
		                      &tags->tags[tags->count])) {
			tags->count++;
		}
	}
	ZEND_HASH_FOREACH_END();
	return true;
}

bool data_seconds(zend_long seconds, uint32_t argument, uint64_t *milliseconds)
{
	if (seconds < 0 || seconds > DATA_MOST_SECONDS) {
		zend_argument_value_error(argument, "must be 0 to %d seconds", DATA_MOST_SECONDS);
		return false;
	}
	*milliseconds = (uint64_t)seconds * 1000;
	return true;
}

bool data_find(const zend_string *key, struct data_cache_Value *found)
{
	return reprise_data->is_attached
	       && data_cache_find(&reprise_data->process, (const uint8_t *)ZSTR_VAL(key), ZSTR_LEN(key), data_now(), found);
}

/* A value that need not be renewed, as a value of PHP. */
static bool fetch(zval *target, zend_string *key)
{
	struct data_cache_Value found;
	bool is_found = data_find(key, &found) && (found.soft == 0 || found.soft > data_now()) && data_give(target, &found);

	if (reprise_data->is_attached) {
		data_has_copied();
		if (!is_found && !engine_has_exception()) {
			is_found = data_cluster_fetch(key, target) == CLUSTER_VALUE;
			data_has_copied();
		}
		data_cache_count(&reprise_data->process, is_found ? HITS : MISSES);
	}
	return is_found;
}

ZEND_FUNCTION(reprise_cache_fetch)
{
	zend_string *key;
	zval *otherwise = NULL;

	ZEND_PARSE_PARAMETERS_START(1, 2)
	Z_PARAM_STR(key)
	Z_PARAM_OPTIONAL
	Z_PARAM_ZVAL(otherwise)
	ZEND_PARSE_PARAMETERS_END();
	if (!data_key(key, 1)) {
		RETURN_THROWS();
	}
	if (!fetch(return_value, key) && !engine_has_exception() && otherwise) {
		RETURN_COPY(otherwise);
	}
}

/* Keys of an array of names, or of name => value. A name that looks like a number is one in PHP's arrays. */
static zend_string *key_of(zval *name, zend_string *key, zend_ulong index)
{
	if (name) {
		ZVAL_DEREF(name);
		return Z_TYPE_P(name) == IS_LONG ? zend_long_to_str(Z_LVAL_P(name)) : zval_try_get_string(name);
	}
	return key ? zend_string_copy(key) : zend_long_to_str((zend_long)index);
}

ZEND_FUNCTION(reprise_cache_fetch_many)
{
	HashTable *names;
	zval *otherwise = NULL, *name, value, null;

	ZEND_PARSE_PARAMETERS_START(1, 2)
	Z_PARAM_ARRAY_HT(names)
	Z_PARAM_OPTIONAL
	Z_PARAM_ZVAL(otherwise)
	ZEND_PARSE_PARAMETERS_END();
	ZVAL_NULL(&null);
	array_init_size(return_value, zend_hash_num_elements(names));
	ZEND_HASH_FOREACH_VAL(names, name)
	{
		zend_string *key = key_of(name, NULL, 0);
		if (!key || !data_key(key, 1)) {
			if (key) {
				zend_string_release(key);
			}
			RETURN_THROWS();
		}
		ZVAL_NULL(&value);
		if (!fetch(&value, key)) {
			if (engine_has_exception()) {
				zend_string_release(key);
				RETURN_THROWS();
			}
			ZVAL_COPY(&value, otherwise ? otherwise : &null);
		}
		zend_symtable_update(Z_ARRVAL_P(return_value), key, &value);
		zend_string_release(key);
	}
	ZEND_HASH_FOREACH_END();
}

static bool remove_value(const zend_string *key, uint64_t version)
{
	return reprise_data->is_attached
	       && data_cache_delete(&reprise_data->process, (const uint8_t *)ZSTR_VAL(key), ZSTR_LEN(key), version,
	                            data_now());
}

/* With `only_if` the value is stored in the place of that string alone. `argument` is the number of that for `ttl`,
 * behind which the one for the tags stands. */
static bool store(zend_string *key, zval *value, zend_long ttl, HashTable *names, bool only_new, zend_string *only_if,
                  uint32_t argument)
{
	struct data_tags tags;
	struct data_order order = {.key = key, .condition = only_new ? 1 : 0};
	struct data_cache_Value found;

	if (!data_key(key, 1) || !data_seconds(ttl, argument, &order.ttl) || !data_read_tags(&tags, names, argument + 1)
	    || !reprise_data->is_attached) {
		return false;
	}
	if (only_new && data_find(key, &found) && (found.hard == 0 || found.hard > data_now())) {
		/* Nothing needs to be laid out. */
		data_has_copied();
		return false;
	}
	uint32_t touches = data_cache_touches(&reprise_data->process, (const uint8_t *)ZSTR_VAL(key), ZSTR_LEN(key));
	enum cluster_answer answer = data_cluster_store(&order, names, value, only_new, only_if);
	if (answer == CLUSTER_NONE || answer == CLUSTER_HELD || engine_has_exception()) {
		return false;
	}
	if (answer == CLUSTER_DONE) {
		/* The store has decided for all nodes. If another one has changed the value since, it is not kept here. */
		order.condition = 2;
		order.number = touches;
	} else if (only_if) {
		if (!data_is_string(key, only_if, &found)) {
			return false;
		}
		order.condition = 3;
		order.number = found.version;
	}
	data_has_copied();
	order.tags = tags.tags;
	order.tag_count = tags.count;
	order.flush = data_cache_flushes(&reprise_data->process);
	enum data_stored result = data_store_value(&order, value);
	if (!only_new && (result == DATA_TOO_LARGE || result == DATA_NO_ROOM)) {
		/* Who wanted another value there must not find the old one. */
		remove_value(key, order.condition == 3 ? found.version : 0);
	}
	return result == DATA_STORED || (result == DATA_NOT_STORED && answer == CLUSTER_DONE);
}

bool data_is_string(const zend_string *key, const zend_string *text, struct data_cache_Value *found)
{
	bool is_it =
	    data_find(key, found) && (found->soft == 0 || found->soft > data_now()) && found->kind == DATA_LAID_OUT;

	if (is_it) {
		const zval *value = (const zval *)(const void *)found->zval;
		is_it = Z_TYPE_P(value) == IS_STRING && zend_string_equals(Z_STR_P(value), text);
	}
	data_has_copied();
	return is_it;
}

static void store_function(INTERNAL_FUNCTION_PARAMETERS, bool only_new)
{
	zend_string *key, *only_if = NULL;
	zval *value;
	zend_long ttl = 0;
	HashTable *tags = NULL;

	ZEND_PARSE_PARAMETERS_START(2, only_new ? 4 : 5)
	Z_PARAM_STR(key)
	Z_PARAM_ZVAL(value)
	Z_PARAM_OPTIONAL
	Z_PARAM_LONG(ttl)
	Z_PARAM_ARRAY_HT(tags)
	Z_PARAM_STR_OR_NULL(only_if)
	ZEND_PARSE_PARAMETERS_END();
	bool is_stored = store(key, value, ttl, tags, only_new, only_if, 3);
	if (engine_has_exception()) {
		RETURN_THROWS();
	}
	RETURN_BOOL(is_stored);
}

ZEND_FUNCTION(reprise_cache_store)
{
	store_function(INTERNAL_FUNCTION_PARAM_PASSTHRU, false);
}

ZEND_FUNCTION(reprise_cache_add)
{
	store_function(INTERNAL_FUNCTION_PARAM_PASSTHRU, true);
}

ZEND_FUNCTION(reprise_cache_store_many)
{
	HashTable *values, *tags = NULL;
	zend_long ttl = 0;
	zend_string *name;
	zend_ulong index;
	zval *value;
	bool all_stored = true;

	ZEND_PARSE_PARAMETERS_START(1, 3)
	Z_PARAM_ARRAY_HT(values)
	Z_PARAM_OPTIONAL
	Z_PARAM_LONG(ttl)
	Z_PARAM_ARRAY_HT(tags)
	ZEND_PARSE_PARAMETERS_END();
	ZEND_HASH_FOREACH_KEY_VAL(values, index, name, value)
	{
		zend_string *key = key_of(NULL, name, index);
		all_stored = store(key, value, ttl, tags, false, NULL, 2) && all_stored;
		zend_string_release(key);
		if (engine_has_exception()) {
			RETURN_THROWS();
		}
	}
	ZEND_HASH_FOREACH_END();
	RETURN_BOOL(all_stored);
}

ZEND_FUNCTION(reprise_cache_delete)
{
	zend_string *key, *only_if = NULL;
	struct data_cache_Value found = {0};

	ZEND_PARSE_PARAMETERS_START(1, 2)
	Z_PARAM_STR(key)
	Z_PARAM_OPTIONAL
	Z_PARAM_STR_OR_NULL(only_if)
	ZEND_PARSE_PARAMETERS_END();
	if (!data_key(key, 1)) {
		RETURN_THROWS();
	}
	/* What other nodes are told may take effect here before this has done it. */
	bool is_there = !only_if && reprise_data->door > 0 && data_find(key, &found);
	data_has_copied();
	enum cluster_answer answer = data_cluster_delete(key, only_if);
	if (only_if && answer == CLUSTER_DONE) {
		remove_value(key, 0);
		RETURN_TRUE;
	}
	if (only_if && (answer == CLUSTER_NONE || !data_is_string(key, only_if, &found))) {
		RETURN_FALSE;
	}
	RETURN_BOOL(remove_value(key, only_if ? found.version : 0) || is_there);
}

ZEND_FUNCTION(reprise_cache_delete_many)
{
	HashTable *names;
	zval *name;

	ZEND_PARSE_PARAMETERS_START(1, 1)
	Z_PARAM_ARRAY_HT(names)
	ZEND_PARSE_PARAMETERS_END();
	ZEND_HASH_FOREACH_VAL(names, name)
	{
		zend_string *key = key_of(name, NULL, 0);
		bool is_key = key && data_key(key, 1);
		if (is_key) {
			(void)data_cluster_delete(key, NULL);
			remove_value(key, 0);
		}
		if (key) {
			zend_string_release(key);
		}
		if (!is_key) {
			RETURN_THROWS();
		}
	}
	ZEND_HASH_FOREACH_END();
	RETURN_BOOL(reprise_data->is_attached);
}

ZEND_FUNCTION(reprise_cache_increment)
{
	zend_string *key;
	zend_long by = 1, ttl = 0;
	int64_t sum;
	zval first;

	ZEND_PARSE_PARAMETERS_START(1, 3)
	Z_PARAM_STR(key)
	Z_PARAM_OPTIONAL
	Z_PARAM_LONG(by)
	Z_PARAM_LONG(ttl)
	ZEND_PARSE_PARAMETERS_END();
	if (!data_key(key, 1)) {
		RETURN_THROWS();
	}
	struct data_order order = {.key = key, .condition = 1};
	if (!data_seconds(ttl, 3, &order.ttl)) {
		RETURN_THROWS();
	}
	if (!reprise_data->is_attached) {
		RETURN_FALSE;
	}
	zend_long of_all;
	switch (data_cluster_increment(&order, by, &of_all)) {
	case CLUSTER_DONE:
		/* Who asks next gets what the store has. */
		remove_value(key, 0);
		RETURN_LONG(of_all);
	case CLUSTER_NONE:
	case CLUSTER_HELD: RETURN_FALSE;
	default: break;
	}
	ZVAL_LONG(&first, by);
	order.flush = data_cache_flushes(&reprise_data->process);
	/* Another may store the first number, or remove it, in between. */
	for (int attempt = 0; attempt < 100; attempt++) {
		if (data_cache_increment(&reprise_data->process, (const uint8_t *)ZSTR_VAL(key), ZSTR_LEN(key), by, data_now(),
		                         &sum)) {
			RETURN_LONG((zend_long)sum);
		}
		enum data_stored result = data_store_value(&order, &first);
		if (result == DATA_STORED) {
			RETURN_LONG(by);
		}
		struct data_cache_Value found;
		bool is_other = data_find(key, &found) && found.kind != DATA_NUMBER;
		data_has_copied();
		if (result != DATA_NOT_STORED || is_other) {
			break;
		}
	}
	RETURN_FALSE;
}
