/* The superglobals of a request. See superglobals.h. */
#include <php.h>
#include <php_globals.h>
#include <php_variables.h>

#include <string.h>

#include "superglobals.h"

zval *engine_superglobal(const char *name, size_t size)
{
	zval *value = zend_hash_str_find(&EG(symbol_table), name, size);

	if (!value) {
		return NULL;
	}
	if (Z_TYPE_P(value) == IS_INDIRECT) {
		value = Z_INDIRECT_P(value);
	}
	ZVAL_DEREF(value);
	return Z_TYPE_P(value) == IS_ARRAY ? value : NULL;
}

void engine_superglobals_forget(void)
{
	static const char *const names[] = {"_GET",    "_POST", "_COOKIE",  "_FILES",
	                                    "_SERVER", "_ENV",  "_REQUEST", "_SESSION"};

	for (int i = 0; i < NUM_TRACK_VARS; i++) {
		zval_ptr_dtor(&PG(http_globals)[i]);
		ZVAL_UNDEF(&PG(http_globals)[i]);
	}
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		zend_hash_str_del(&EG(symbol_table), names[i], strlen(names[i]));
	}
}

static const char *const brought_as[NUM_TRACK_VARS] = {
    [TRACK_VARS_POST] = "_POST",     [TRACK_VARS_GET] = "_GET", [TRACK_VARS_COOKIE] = "_COOKIE",
    [TRACK_VARS_SERVER] = "_SERVER", [TRACK_VARS_ENV] = "_ENV", [TRACK_VARS_FILES] = "_FILES",
};

/* A write to an array that two have makes a new array, so the same array is unchanged. */
static bool is_as_brought(int number)
{
	const char *name = brought_as[number];
	zval *brought = &PG(http_globals)[number];

	if (!name || Z_TYPE_P(brought) != IS_ARRAY) {
		return true;
	}
	const zval *now = zend_hash_str_find(&EG(symbol_table), name, strlen(name));
	return now && Z_TYPE_P(now) == IS_ARRAY && Z_ARR_P(now) == Z_ARR_P(brought);
}

/* PHP makes $_REQUEST of texts and arrays. */
static bool has_texts_only(zval *array)
{
	zval *value;

	ZEND_HASH_FOREACH_VAL(Z_ARRVAL_P(array), value)
	{
		if (Z_TYPE_P(value) != IS_STRING) {
			return false;
		}
	}
	ZEND_HASH_FOREACH_END();
	return true;
}

bool engine_superglobals_are_as_brought(void)
{
	for (int i = 0; i < NUM_TRACK_VARS; i++) {
		if (!is_as_brought(i)) {
			return false;
		}
	}
	zval *request = zend_hash_str_find(&EG(symbol_table), ZEND_STRL("_REQUEST"));
	if (request && (Z_TYPE_P(request) != IS_ARRAY || !has_texts_only(request))) {
		return false;
	}
	return !zend_hash_str_exists(&EG(symbol_table), ZEND_STRL("_SESSION"));
}

void engine_superglobals_reset(void)
{
	for (int i = 0; i < NUM_TRACK_VARS; i++) {
		if (!is_as_brought(i)) {
			zval brought;
			ZVAL_COPY(&brought, &PG(http_globals)[i]);
			zend_hash_str_update(&EG(symbol_table), brought_as[i], strlen(brought_as[i]), &brought);
		}
	}
	zend_hash_str_del(&EG(symbol_table), ZEND_STRL("_REQUEST"));
}
