/* The superglobals of a request. See superglobals.h. */
#include <php.h>
#include <php_globals.h>
#include <php_variables.h>

#include <string.h>

#include "superglobals.h"

zval *reprise_superglobal(const char *name, size_t size)
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

void reprise_superglobals_forget(void)
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

void reprise_superglobals_reset(void)
{
	static const char *const names[NUM_TRACK_VARS] = {
	    [TRACK_VARS_POST] = "_POST",     [TRACK_VARS_GET] = "_GET", [TRACK_VARS_COOKIE] = "_COOKIE",
	    [TRACK_VARS_SERVER] = "_SERVER", [TRACK_VARS_ENV] = "_ENV", [TRACK_VARS_FILES] = "_FILES",
	};

	for (int i = 0; i < NUM_TRACK_VARS; i++) {
		if (names[i] && Z_TYPE(PG(http_globals)[i]) == IS_ARRAY) {
			zval brought;
			ZVAL_COPY(&brought, &PG(http_globals)[i]);
			zend_hash_str_update(&EG(symbol_table), names[i], strlen(names[i]), &brought);
		}
	}
	zend_hash_str_del(&EG(symbol_table), ZEND_STRL("_REQUEST"));
}
