/* See values.h. */
#define _GNU_SOURCE
#include <php.h>
#include <ext/standard/php_var.h>
#include <zend_exceptions.h>
#include <zend_smart_str.h>

#include "../engine/modules.h"
#include "../engine/request_state.h"
#include "../engine/shared_values.h"
#include "values.h"
#include "clock.h"
#include "../core/data_state.h"

/* Copies that a worker script keeps, in bytes of the segment. When there are more, all go. */
#define MOST_KEPT (16u << 20)
/* A copy of less is made each time. */
#define WORTH_KEEPING 64

static bool has_igbinary(void)
{
	return engine_has_module("igbinary");
}

static bool call_igbinary(const char *name, zval *result, zval *argument)
{
	zval function;

	ZVAL_STRING(&function, name);
	bool is_called = call_user_function(NULL, NULL, &function, result, 1, argument) == SUCCESS;
	zval_ptr_dtor(&function);
	return is_called && !engine_has_exception();
}

/* Objects, enums and variables that are one. False: an exception says why not. */
static bool serialize(zval *value, zval *bytes, enum data_kind *kind)
{
	smart_str text = {0};
	php_serialize_data_t seen;

	if (has_igbinary()) {
		*kind = DATA_IGBINARY;
		ZVAL_UNDEF(bytes);
		if (call_igbinary("igbinary_serialize", bytes, value) && Z_TYPE_P(bytes) == IS_STRING) {
			return true;
		}
		zval_ptr_dtor(bytes);
		if (!engine_has_exception()) {
			zend_value_error("the value cannot be serialized");
		}
		return false;
	}
	*kind = DATA_SERIALIZED;
	PHP_VAR_SERIALIZE_INIT(seen);
	php_var_serialize(&text, value, &seen);
	PHP_VAR_SERIALIZE_DESTROY(seen);
	if (engine_has_exception() || !text.s) {
		smart_str_free(&text);
		return false;
	}
	smart_str_0(&text);
	ZVAL_STR(bytes, text.s);
	return true;
}

static struct data_cache_Storing terms(const struct data_order *order, enum data_kind kind)
{
	uint64_t now = data_now(), soft = order->ttl ? now + order->ttl : 0;

	return (struct data_cache_Storing){
	    .key = (const uint8_t *)ZSTR_VAL(order->key),
	    .key_size = ZSTR_LEN(order->key),
	    .tags = order->tags,
	    .tag_count = order->tag_count,
	    .flush = order->flush,
	    .now = now,
	    .soft = soft,
	    .hard = soft ? soft + order->stale : 0,
	    .cost = order->cost,
	    .kind = (uint32_t)kind,
	    .is_memo = order->is_memo,
	};
}

static enum data_stored reserve(const struct data_cache_Storing *storing, size_t size, struct data_cache_Room *room)
{
	int failed = data_cache_reserve(&reprise_data->process, storing, size, room);

	return failed == 0 ? DATA_STORED : failed == -1 ? DATA_TOO_LARGE : DATA_NO_ROOM;
}

static enum data_stored publish(const struct data_order *order, const struct data_cache_Storing *storing,
                                const struct data_cache_Room *room)
{
	bool is_linked =
	    data_cache_publish(&reprise_data->process, room->offset, order->condition, order->number, storing->now);

	return is_linked ? DATA_STORED : DATA_NOT_STORED;
}

enum data_stored data_store_value(const struct data_order *order, zval *value)
{
	struct data_cache_Room room;
	size_t size;

	ZVAL_DEREF(value);
	switch (engine_shared_measure(value, &size)) {
	case SHARED_FITS: break;
	case SHARED_SERIALIZE: {
		zval bytes;
		enum data_kind kind;
		if (!serialize(value, &bytes, &kind)) {
			return DATA_THROWN;
		}
		struct data_cache_Storing storing = terms(order, kind);
		enum data_stored result = reserve(&storing, engine_shared_string_size(Z_STRLEN(bytes)), &room);
		if (result == DATA_STORED) {
			engine_shared_lay_out_string((zval *)(void *)room.zval, Z_STRVAL(bytes), Z_STRLEN(bytes), (char *)room.data,
			                             room.to_read);
			result = publish(order, &storing, &room);
		}
		zval_ptr_dtor(&bytes);
		return result;
	}
	case SHARED_RESOURCE: zend_value_error("a resource cannot be stored in the data cache"); return DATA_THROWN;
	case SHARED_TOO_DEEP:
		zend_value_error("an array that is nested deeper than %d levels cannot be stored in the data cache",
		                 SHARED_DEPTH);
		return DATA_THROWN;
	}
	struct data_cache_Storing storing = terms(order, Z_TYPE_P(value) == IS_LONG ? DATA_NUMBER : DATA_LAID_OUT);
	enum data_stored result = reserve(&storing, size, &room);
	if (result == DATA_STORED) {
		engine_shared_lay_out((zval *)(void *)room.zval, value, (char *)room.data, room.to_read);
		result = publish(order, &storing, &room);
	}
	return result;
}

/* ---- what a worker script keeps ------------------------------------------------------------------------------------
 */

struct kept {
	uint64_t version;
	zval value;
};

static HashTable *all_kept;
static size_t kept_bytes;

static void drop_kept(zval *place)
{
	struct kept *kept = Z_PTR_P(place);

	zval_ptr_dtor(&kept->value);
	efree(kept);
}

/* The same array for all requests until there is another version: who changes it gets a copy, as PHP's arrays do. */
static void give_kept(zval *target, const zval *value, const struct data_cache_Value *found)
{
	const char *key = (const char *)found->key;
	struct kept *kept = all_kept ? zend_hash_str_find_ptr(all_kept, key, found->key_size) : NULL;

	if (!kept || kept->version != found->version) {
		if (!all_kept) {
			ALLOC_HASHTABLE(all_kept);
			zend_hash_init(all_kept, 8, NULL, drop_kept, false);
		}
		if (kept_bytes + found->size > MOST_KEPT) {
			zend_hash_clean(all_kept);
			kept_bytes = 0;
		}
		kept = emalloc(sizeof *kept);
		kept->version = found->version;
		engine_shared_copy_out(&kept->value, value);
		zend_hash_str_update_ptr(all_kept, key, found->key_size, kept);
		kept_bytes += found->size;
	}
	ZVAL_COPY(target, &kept->value);
}

/* ---- giving values -------------------------------------------------------------------------------------------------
 */

/* Code that runs while these bytes are read gets values, too, and ends what this process holds if it gets copies. */
static void take_bytes(zval *bytes, const zval *value)
{
	if (reprise_data->use == DATA_SHARES) {
		ZVAL_COPY_VALUE(bytes, value);
	} else {
		ZVAL_STRINGL(bytes, Z_STRVAL_P(value), Z_STRLEN_P(value));
	}
}

static bool unserialize(zval *target, const zval *bytes)
{
	const unsigned char *at = (const unsigned char *)Z_STRVAL_P(bytes), *end = at + Z_STRLEN_P(bytes);
	php_unserialize_data_t seen;

	PHP_VAR_UNSERIALIZE_INIT(seen);
	bool is_whole = php_var_unserialize(target, &at, end, &seen);
	if (is_whole && Z_ISREF_P(target)) {
		/* A value that is its own part. */
		zval inner;
		ZVAL_COPY(&inner, Z_REFVAL_P(target));
		zval_ptr_dtor(target);
		ZVAL_COPY_VALUE(target, &inner);
	}
	PHP_VAR_UNSERIALIZE_DESTROY(seen);
	return is_whole && !engine_has_exception();
}

bool data_give(zval *target, const struct data_cache_Value *found)
{
	const zval *value = (const zval *)(const void *)found->zval;
	zval result, bytes;

	switch ((enum data_kind)found->kind) {
	case DATA_NUMBER: ZVAL_LONG(target, (zend_long)__atomic_load_n(&Z_LVAL_P(value), __ATOMIC_RELAXED)); return true;
	case DATA_IGBINARY:
	case DATA_SERIALIZED: {
		bool is_igbinary = found->kind == DATA_IGBINARY;
		if (is_igbinary && !has_igbinary()) {
			return false;
		}
		take_bytes(&bytes, value);
		ZVAL_UNDEF(&result);
		bool is_whole =
		    is_igbinary ? call_igbinary("igbinary_unserialize", &result, &bytes) : unserialize(&result, &bytes);
		zval_ptr_dtor(&bytes);
		if (!is_whole) {
			zval_ptr_dtor(&result);
			return false;
		}
		ZVAL_COPY_VALUE(target, &result);
		return true;
	}
	case DATA_LAID_OUT: break;
	}
	if (reprise_data->use == DATA_SHARES) {
		ZVAL_COPY_VALUE(target, value);
	} else if (reprise_data->use == DATA_KEEPS && found->size >= WORTH_KEEPING
	           && (Z_TYPE_P(value) == IS_ARRAY || Z_TYPE_P(value) == IS_STRING)) {
		give_kept(target, value, found);
	} else {
		engine_shared_copy_out(target, value);
	}
	return true;
}

/* ---- other nodes ---------------------------------------------------------------------------------------------------
 */

zend_string *data_encode(zval *value, enum data_kind *kind)
{
	zval bytes;

	ZVAL_DEREF(value);
	switch (Z_TYPE_P(value)) {
	case IS_STRING:
		*kind = DATA_LAID_OUT;
		ZVAL_COPY(&bytes, value);
		break;
	case IS_LONG:
		*kind = DATA_NUMBER;
		ZVAL_STRINGL(&bytes, (const char *)&Z_LVAL_P(value), sizeof Z_LVAL_P(value));
		break;
	default:
		if (!serialize(value, &bytes, kind)) {
			return NULL;
		}
	}
	if (Z_STRLEN(bytes) > data_cache_LARGEST_VALUE) {
		zval_ptr_dtor(&bytes);
		return NULL;
	}
	return Z_STR(bytes);
}

bool data_decode(zval *target, enum data_kind kind, zend_string *bytes)
{
	zval text;
	zend_long number;

	ZVAL_STR(&text, bytes);
	switch (kind) {
	case DATA_LAID_OUT: ZVAL_STR_COPY(target, bytes); return true;
	case DATA_NUMBER:
		if (ZSTR_LEN(bytes) != sizeof number) {
			return false;
		}
		memcpy(&number, ZSTR_VAL(bytes), sizeof number);
		ZVAL_LONG(target, number);
		return true;
	case DATA_SERIALIZED: break;
	case DATA_IGBINARY:
		if (!has_igbinary()) {
			return false;
		}
		break;
	default: return false;
	}
	ZVAL_UNDEF(target);
	bool is_whole =
	    kind == DATA_IGBINARY ? call_igbinary("igbinary_unserialize", target, &text) : unserialize(target, &text);
	if (!is_whole) {
		zval_ptr_dtor(target);
		ZVAL_UNDEF(target);
	}
	return is_whole;
}

void data_has_copied(void)
{
	if (reprise_data->use != DATA_SHARES) {
		data_cache_end_reading(&reprise_data->process);
	}
}
