/*
 * Settings and environment that the boot of a worker script has set. After each request they are again what they were
 * when the loop began.
 */
#define _GNU_SOURCE
#include <php.h>
#include <php_ini.h>
#include <ext/standard/basic_functions.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../core/log.h"
#include "boot_state.h"
#include "session.h"

static struct {
	HashTable ini;         /* persistent: name => value */
	HashTable environment; /* persistent: name => value */
	char **pairs;          /* the same as environ had it */
	size_t count;
} kept;

void engine_boot_note_ini(void)
{
	zend_ini_entry *entry;

	zend_hash_init(&kept.ini, 8, NULL, ZVAL_PTR_DTOR, 1);
	if (!EG(modified_ini_directives)) {
		return;
	}
	ZEND_HASH_FOREACH_PTR(EG(modified_ini_directives), entry)
	{
		zval value;
		if (entry->value) {
			ZVAL_NEW_STR(&value, zend_string_dup(entry->value, 1));
		} else {
			ZVAL_NULL(&value);
		}
		zend_hash_update(&kept.ini, entry->name, &value);
	}
	ZEND_HASH_FOREACH_END();
}

static bool is_as_before(const zend_ini_entry *entry, const zval *before)
{
	if (!entry->value || Z_TYPE_P(before) != IS_STRING) {
		return !entry->value && Z_TYPE_P(before) != IS_STRING;
	}
	return zend_string_equals(Z_STR_P(before), entry->value);
}

/* A setting turns opcache off. It can be turned on again only when a request begins for opcache, which worker mode does
 * not do. */
static bool is_lost;

bool engine_boot_is_lost(void)
{
	return is_lost;
}

/* Settings that the boot has not changed get the values of php.ini again. */
static void restore_defaults(void)
{
	zend_ini_entry *entry;
	zend_string *changed[64];
	size_t count;

	do {
		count = 0;
		ZEND_HASH_FOREACH_PTR(EG(modified_ini_directives), entry)
		{
			if (!zend_hash_exists(&kept.ini, entry->name) && count < sizeof changed / sizeof *changed) {
				if (zend_string_equals_literal(entry->name, "opcache.enable")) {
					is_lost = true;
					reprise_log_line("notice", "recycled: a request has turned opcache off");
				}
				changed[count++] = zend_string_copy(entry->name);
			}
		}
		ZEND_HASH_FOREACH_END();
		for (size_t i = 0; i < count; i++) {
			zend_restore_ini_entry(changed[i], PHP_INI_STAGE_DEACTIVATE);
			/* A setting may refuse that. It must not be found again. */
			zend_hash_del(EG(modified_ini_directives), changed[i]);
			zend_string_release(changed[i]);
		}
	} while (count == sizeof changed / sizeof *changed);
}

void engine_boot_restore_ini(void)
{
	zend_string *name;
	zval *before;

	if (EG(modified_ini_directives)) {
		restore_defaults();
	}
	engine_session_takes_handlers(true);
	ZEND_HASH_FOREACH_STR_KEY_VAL(&kept.ini, name, before)
	{
		zend_ini_entry *entry = zend_hash_find_ptr(EG(ini_directives), name);
		if (entry && Z_TYPE_P(before) == IS_STRING && !is_as_before(entry, before)) {
			zend_string *value = zend_string_dup(Z_STR_P(before), 0);
			zend_alter_ini_entry_ex(name, value, PHP_INI_SYSTEM, PHP_INI_STAGE_RUNTIME, true);
			zend_string_release(value);
		}
	}
	ZEND_HASH_FOREACH_END();
	engine_session_takes_handlers(false);
}

/* The environment as it is, in its order. It is compared with the process's own before each variable is looked up. */
static void keep_order(void)
{
	size_t count = 0;

	while (environ && environ[count]) {
		count++;
	}
	for (size_t i = 0; i < kept.count; i++) {
		free(kept.pairs[i]);
	}
	kept.pairs = perealloc(kept.pairs, (count + 1) * sizeof *kept.pairs, 1);
	for (size_t i = 0; i < count; i++) {
		kept.pairs[i] = pestrdup(environ[i], 1);
	}
	kept.count = count;
}

void engine_boot_note_environment(void)
{
	zend_hash_init(&kept.environment, 8, NULL, ZVAL_PTR_DTOR, 1);
	for (char **pair = environ; pair && *pair; pair++) {
		const char *equals = strchr(*pair, '=');
		zval value;
		if (equals) {
			ZVAL_NEW_STR(&value, zend_string_init(equals + 1, strlen(equals + 1), 1));
			zend_hash_str_update(&kept.environment, *pair, (size_t)(equals - *pair), &value);
		}
	}
	keep_order();
}

static bool environment_is_as_before(void)
{
	for (size_t i = 0; i < kept.count; i++) {
		if (!environ || !environ[i] || strcmp(environ[i], kept.pairs[i]) != 0) {
			return false;
		}
	}
	return !environ || !environ[kept.count];
}

/* putenv() of a request is undone. */
void engine_boot_restore_environment(void)
{
	zend_string *name;
	zval *value;

	if (environment_is_as_before()) {
		return;
	}
	for (char **pair = environ; pair && *pair;) {
		size_t size = strcspn(*pair, "=");
		if (zend_hash_str_exists(&kept.environment, *pair, size)) {
			pair++;
			continue;
		}
		char *added = estrndup(*pair, size);
		/* PHP's note of the old value goes first: PHP would set the old value. */
		zend_hash_str_del(&BG(putenv_ht), added, size);
		unsetenv(added);
		efree(added);
		pair = environ;
	}
	ZEND_HASH_FOREACH_STR_KEY_VAL(&kept.environment, name, value)
	{
		const char *now = getenv(ZSTR_VAL(name));
		if (!now || strcmp(now, Z_STRVAL_P(value)) != 0) {
			setenv(ZSTR_VAL(name), Z_STRVAL_P(value), 1);
		}
	}
	ZEND_HASH_FOREACH_END();
	keep_order();
}
