/*
 * $_SERVER and getenv(), from the head of the request.
 */
#define _GNU_SOURCE
#include <php.h>
#include <php_variables.h>
#include <SAPI.h>

#include <string.h>

#include "../engine/filter.h"
#include "variables.h"
#include "ipc.h"
#include "../core/head.h"
#include "../core/mode.h"

static void (*import_process_environment)(zval *);

static bool copy_variable(const char *name, uint32_t name_size, const char *value, uint32_t size, void *context)
{
	char *filtered = (char *)value;
	size_t filtered_size = size;

	(void)name_size;
	(void)context;
	sapi_module.input_filter(PARSE_SERVER, (char *)name, &filtered, size, &filtered_size);
	return true;
}

static void copy_for_filter(void)
{
	reprise_each_variable(copy_variable, NULL);
}

static bool add_server_variable(const char *name, uint32_t name_size, const char *value, uint32_t size, void *array)
{
	zval text;

	ZVAL_STRINGL_FAST(&text, value, size);
	zend_hash_str_update(Z_ARRVAL_P((zval *)array), name, name_size, &text);
	return true;
}

/* Extensions may change a variable or leave it out. Without ext/filter this hook does nothing. */
static bool filter_variable(const char *name, uint32_t name_size, const char *value, uint32_t size, void *array)
{
	char *filtered = (char *)value;
	size_t filtered_size = size;

	if (sapi_module.input_filter(PARSE_SERVER, (char *)name, &filtered, size, &filtered_size)) {
		return add_server_variable(name, name_size, filtered, (uint32_t)filtered_size, array);
	}
	return true;
}

/* As under PHP-FPM: the environment, which is cleared, then the request. PHP adds REQUEST_TIME. */
void request_register_variables(void *array)
{
	import_process_environment(array);
	reprise_each_variable(engine_filter_waits() ? add_server_variable : filter_variable, array);
	if (reprise_worker_mode_has_begun()) {
		/* Scripts that are written for FrankenPHP look for it. */
		add_assoc_string((zval *)array, "FRANKENPHP_WORKER", "1");
	}
}

static bool add_variable(const char *name, uint32_t name_size, const char *value, uint32_t size, void *array)
{
	add_assoc_stringl_ex((zval *)array, name, name_size, value, size);
	return true;
}

/* For getenv() without arguments, and for $_ENV: the environment, then the request. */
static void import_environment(zval *array)
{
	import_process_environment(array);
	if (SG(server_context)) {
		reprise_each_variable(add_variable, array);
	}
}

void request_variables_start(void)
{
	import_process_environment = php_import_environment_variables;
	php_import_environment_variables = import_environment;
	engine_filter_start(copy_for_filter);
}
