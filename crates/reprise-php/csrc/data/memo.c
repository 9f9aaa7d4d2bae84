/*
 * reprise_memo(): what a pure function returns for its arguments, computed once and read by all workers.
 *
 * The key is a digest of all that the result depends on: the function, its arguments, and a version. A stranger who
 * writes an argument (a comment) cannot find another one with the same digest, so no visitor sees one text for another.
 * The function is known by its class, name, file and line, and by the release. Without a release: by size and times of
 * its file, and by the generation, unless the caller gives a version. A file that has changed since the generation
 * began may not be what this process has loaded: then nothing is looked up or kept. The results have a share of the
 * segment for themselves, and nothing else leaves for them (crates/data-cache: regions.rs).
 */
#define _GNU_SOURCE
#include <php.h>
#include <ext/hash/php_hash.h>
#include <ext/hash/php_hash_sha.h>

#include <string.h>
#include <sys/stat.h>

#include "../core/data_state.h"
#include "../core/options.h"
#include "../engine/request_state.h"
#include "../engine/pure.h"
#include "arguments.h"
#include "clock.h"
#include "values.h"

/* Arrays within arrays. */
#define MOST_DEPTH 64
#define DIGEST 32

static const char prefix[] = "reprise.memo ";

/* Each part has its length before it: no two lists of parts have the same bytes. */
static void add(PHP_SHA512_CTX *digest, char what, const void *bytes, size_t size)
{
	unsigned char head[1 + sizeof size];

	head[0] = (unsigned char)what;
	memcpy(head + 1, &size, sizeof size);
	PHP_SHA512Update(digest, head, sizeof head);
	PHP_SHA512Update(digest, bytes, size);
}

static void add_string(PHP_SHA512_CTX *digest, char what, const zend_string *text)
{
	add(digest, what, text ? ZSTR_VAL(text) : "", text ? ZSTR_LEN(text) : 0);
}

static void add_number(PHP_SHA512_CTX *digest, char what, uint64_t number)
{
	add(digest, what, &number, sizeof number);
}

static bool add_array(PHP_SHA512_CTX *digest, HashTable *array, unsigned depth);

/* False: it is none of the values that a key can be made of, and a TypeError says so. */
static bool add_value(PHP_SHA512_CTX *digest, zval *value, unsigned depth)
{
	ZVAL_DEREF(value);
	switch (Z_TYPE_P(value)) {
	case IS_NULL: add(digest, 'n', "", 0); return true;
	case IS_FALSE: add(digest, 'f', "", 0); return true;
	case IS_TRUE: add(digest, 't', "", 0); return true;
	case IS_LONG: add_number(digest, 'i', (uint64_t)Z_LVAL_P(value)); return true;
	case IS_DOUBLE: add(digest, 'd', &Z_DVAL_P(value), sizeof Z_DVAL_P(value)); return true;
	case IS_STRING: add_string(digest, 's', Z_STR_P(value)); return true;
	case IS_ARRAY: return add_array(digest, Z_ARRVAL_P(value), depth);
	default:
		zend_argument_type_error(2, "must have null, booleans, numbers, strings, and arrays of such, and has %s",
		                         zend_zval_type_name(value));
		return false;
	}
}

static bool add_array(PHP_SHA512_CTX *digest, HashTable *array, unsigned depth)
{
	zend_string *key;
	zend_ulong index;
	zval *value;

	if (depth == MOST_DEPTH) {
		zend_argument_value_error(2, "must have at most %d arrays within each other", MOST_DEPTH);
		return false;
	}
	add_number(digest, 'a', zend_hash_num_elements(array));
	ZEND_HASH_FOREACH_KEY_VAL(array, index, key, value)
	{
		if (key) {
			add_string(digest, 'k', key);
		} else {
			add_number(digest, 'j', index);
		}
		if (!add_value(digest, value, depth + 1)) {
			return false;
		}
	}
	ZEND_HASH_FOREACH_END();
	return true;
}

/* The kernel's times of files may be older than the clock by a tick of it. */
#define TICK_NS 20000000

/* Whether the file is as this generation may have loaded it: it was not touched since. st_ctim cannot be set. */
static bool is_as_loaded(const struct stat *file)
{
	const struct timespec *began = &reprise_data->began, *changed = &file->st_ctim;
	int64_t since = (int64_t)(began->tv_sec - changed->tv_sec) * 1000000000 + (began->tv_nsec - changed->tv_nsec);

	return since > TICK_NS;
}

/* False: it is not known which code the function has, because its file has changed since, or is none. */
static bool add_callable(PHP_SHA512_CTX *digest, const zend_fcall_info_cache *callable, const zend_string *version)
{
	struct engine_origin origin;
	struct stat file = {0};

	engine_origin_of(callable, &origin);
	add_string(digest, 'C', origin.class);
	add_string(digest, 'L', origin.called);
	add_string(digest, 'F', origin.function);
	add_string(digest, 'P', origin.file);
	add_number(digest, 'N', origin.line);
	if (reprise_options.release) {
		add(digest, 'R', reprise_options.release, strlen(reprise_options.release));
	} else {
		if (!version) {
			add_number(digest, 'G', reprise_options.generation);
		}
		if (origin.file && (stat(ZSTR_VAL(origin.file), &file) != 0 || !is_as_loaded(&file))) {
			return false;
		}
		add(digest, 'T', &file.st_mtim, sizeof file.st_mtim);
		add(digest, 'I', &file.st_ctim, sizeof file.st_ctim);
		add_number(digest, 'S', (uint64_t)file.st_size);
	}
	add_string(digest, 'V', version);
	return true;
}

/* NULL: an exception was thrown, or the result is not to be kept. */
static zend_string *key_of(const zend_fcall_info_cache *callable, HashTable *arguments, const zend_string *version)
{
	PHP_SHA512_CTX digest;
	unsigned char bytes[DIGEST];

	PHP_SHA512_256Init(&digest);
	if (!add_callable(&digest, callable, version) || !add_array(&digest, arguments, 0)) {
		return NULL;
	}
	PHP_SHA512_256Final(bytes, &digest);
	zend_string *key = zend_string_alloc(sizeof prefix - 1 + 2 * DIGEST, false);
	memcpy(ZSTR_VAL(key), prefix, sizeof prefix - 1);
	php_hash_bin2hex(ZSTR_VAL(key) + sizeof prefix - 1, bytes, DIGEST);
	ZSTR_VAL(key)[ZSTR_LEN(key)] = 0;
	return key;
}

static void keep(zend_string *key, zval *result)
{
	struct data_order order = {.key = key, .condition = 1, .is_memo = true};

	data_has_copied();
	order.flush = data_cache_flushes(&reprise_data->process);
	/* Where there is no room it is computed again. */
	(void)data_store_value(&order, result);
}

ZEND_FUNCTION(reprise_memo)
{
	zend_fcall_info call;
	zend_fcall_info_cache callable;
	HashTable *arguments;
	zend_string *version = NULL;
	struct data_cache_Value found;

	ZEND_PARSE_PARAMETERS_START(2, 3)
	Z_PARAM_FUNC(call, callable)
	Z_PARAM_ARRAY_HT(arguments)
	Z_PARAM_OPTIONAL
	Z_PARAM_STR_OR_NULL(version)
	ZEND_PARSE_PARAMETERS_END();
	const char *why = engine_why_impure(&callable);
	if (!zend_array_is_list(arguments)) {
		zend_argument_value_error(2, "must be a list");
		RETURN_THROWS();
	}
	if (why) {
		zend_argument_value_error(1, "must be a pure function: %s; pass what the result depends on in the array", why);
		RETURN_THROWS();
	}
	zend_string *key = key_of(&callable, arguments, version);
	if (engine_has_exception()) {
		RETURN_THROWS();
	}
	bool is_kept = key && reprise_data->is_attached;
	if (is_kept && data_find(key, &found) && data_give(return_value, &found)) {
		data_has_copied();
		zend_string_release(key);
		return;
	}
	if (is_kept) {
		data_has_copied();
	}
	call.retval = return_value;
	if (!engine_has_exception()) {
		zval list;
		ZVAL_ARR(&list, arguments);
		zend_fcall_info_args(&call, &list);
		zend_call_function(&call, &callable);
		zend_fcall_info_args_clear(&call, true);
	}
	if (is_kept && !engine_has_exception()) {
		keep(key, return_value);
	}
	if (key) {
		zend_string_release(key);
	}
	if (engine_has_exception()) {
		zval_ptr_dtor(return_value);
		ZVAL_UNDEF(return_value);
	}
}
