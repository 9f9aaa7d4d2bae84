/*
 * What a boot has added to $_SERVER and $_ENV, as Dotenv does: each request gets it, unless it brings a value of its
 * own.
 */
#include <php.h>
#include <php_variables.h>

#include "additions.h"
#include "../core/log.h"
#include "../engine/opcache_clock.h"
#include "../engine/superglobals.h"

static struct {
	bool has_server, has_env, has_request;
	zval server, env;
} added;

/* Entries that the boot has added to an array or changed in it. */
static void find_additions(const char *name, zval *additions, zval *now, const zval *brought)
{
	zend_string *key;
	zend_ulong number;
	zval *value;

	array_init(additions);
	ZEND_HASH_FOREACH_KEY_VAL(Z_ARRVAL_P(now), number, key, value)
	{
		zval *before = NULL;
		if (Z_TYPE_P(brought) == IS_ARRAY) {
			before = key ? zend_hash_find(Z_ARRVAL_P(brought), key) : zend_hash_index_find(Z_ARRVAL_P(brought), number);
		}
		if (before && zend_is_identical(before, value)) {
			continue;
		}
		if (before && key) {
			reprise_log_line("notice", "the boot has changed %s['%s']: the value of each request replaces the change",
			                 name, ZSTR_VAL(key));
		}
		Z_TRY_ADDREF_P(value);
		if (key) {
			zend_hash_update(Z_ARRVAL_P(additions), key, value);
		} else {
			zend_hash_index_update(Z_ARRVAL_P(additions), number, value);
		}
	}
	ZEND_HASH_FOREACH_END();
}

static void add_missing(const char *name, size_t size, const zval *additions)
{
	zval *array = engine_superglobal(name, size);

	if (array && zend_hash_num_elements(Z_ARRVAL_P(additions)) > 0) {
		SEPARATE_ARRAY(array);
		zend_hash_merge(Z_ARRVAL_P(array), Z_ARRVAL_P(additions), zval_add_ref, 0);
	}
}

/* Notes what the boot has added to the superglobals. Each request gets it. */
void request_note_additions(void)
{
	zval *server = engine_superglobal(ZEND_STRL("_SERVER")), *env = engine_superglobal(ZEND_STRL("_ENV"));

	if (server) {
		added.has_server = true;
		find_additions("$_SERVER", &added.server, server, engine_brought(TRACK_VARS_SERVER));
	}
	if (env) {
		added.has_env = true;
		find_additions("$_ENV", &added.env, env, engine_brought(TRACK_VARS_ENV));
	}
	added.has_request = engine_superglobal(ZEND_STRL("_REQUEST")) != NULL;
}

/* PHP makes $_SERVER, $_ENV and $_REQUEST when it compiles code that names them. A request does not compile again what
 * the boot has compiled. */
void request_fill_superglobals(bool all)
{
	if (all || added.has_server) {
		zend_is_auto_global(ZSTR_KNOWN(ZEND_STR_AUTOGLOBAL_SERVER));
	}
	if (added.has_server) {
		add_missing(ZEND_STRL("_SERVER"), &added.server);
	}
	if (all || added.has_env) {
		zend_is_auto_global(ZSTR_KNOWN(ZEND_STR_AUTOGLOBAL_ENV));
	}
	if (added.has_env) {
		add_missing(ZEND_STRL("_ENV"), &added.env);
	}
	if (all || added.has_request) {
		zend_is_auto_global(ZSTR_KNOWN(ZEND_STR_AUTOGLOBAL_REQUEST));
	}
	engine_opcache_clock_renew();
}
