/*
 * Which request bodies PHP takes. The front is told, so that it refuses a longer body before the body has come. It gets
 * the largest post_max_size of php.ini, sections [HOST=…] and [PATH=…] included, and the name of the files by which a
 * directory changes it. For a script with such a file in its directory PHP decides.
 */
#include <php.h>
#include <php_ini.h>
#include <SAPI.h>

#include <string.h>

#include "bodies.h"
#include "../engine/ini.h"
#include "ipc.h"

static uint64_t as_limit(zend_long bytes)
{
	return bytes > 0 ? (uint64_t)bytes : 0;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	if (a == 0 || b == 0) {
		return 0;
	}
	return a > b ? a : b;
}

static uint64_t largest_of_sections(uint64_t limit)
{
	HashTable *configuration = php_ini_get_configuration_hash();
	zval *section;

	if (!configuration) {
		return limit;
	}
	ZEND_HASH_FOREACH_VAL(configuration, section)
	{
		zval *own =
		    Z_TYPE_P(section) == IS_ARRAY ? zend_hash_str_find(Z_ARRVAL_P(section), ZEND_STRL("post_max_size")) : NULL;
		if (own && Z_TYPE_P(own) == IS_STRING) {
			zend_string *error = NULL;
			limit = larger(limit, as_limit(zend_ini_parse_quantity(Z_STR_P(own), &error)));
			if (error) {
				zend_string_release(error);
			}
		}
	}
	ZEND_HASH_FOREACH_END();
	return limit;
}

void request_describe_bodies(struct ipc_Bodies *bodies)
{
	const char *file = engine_user_ini_filename();

	bodies->limit = largest_of_sections(as_limit(SG(post_max_size)));
	if (!file || !engine_ini_is_per_directory(ZEND_STRL("post_max_size"))) {
		return;
	}
	if (strlen(file) < sizeof bodies->settings_file) {
		memcpy(bodies->settings_file, file, strlen(file));
	} else {
		bodies->limit = 0;
	}
}

/* On the service stack, too. */
void request_describe_bodies_of_boot(struct ipc_Bodies *bodies)
{
	bodies->limit = as_limit(SG(post_max_size));
}
