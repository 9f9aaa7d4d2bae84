/*
 * $_SERVER and getenv(), from the worker's copy of the request head. wire/src/head.rs has its layout. PHP trusts the
 * front, which has written the offsets; debug builds assert them.
 */
#define _GNU_SOURCE
#include <php.h>
#include <php_variables.h>
#include <SAPI.h>

#include <string.h>

#include "engine/filter.h"
#include "variables.h"
#include "wire.h"
#include "worker.h"
#include "worker_mode/worker_mode.h"

/* Bytes of a path in a message. */
#define MOST_OF_PATH 512

static void (*import_process_environment)(zval *);

const struct wire_RequestHead *reprise_head(void)
{
	return (const struct wire_RequestHead *)reprise_worker->head;
}

const char *reprise_head_text(struct wire_Span span)
{
	ZEND_ASSERT(span.offset + span.length < sizeof reprise_worker->head);
	return span.offset ? (const char *)reprise_worker->head + span.offset : "";
}

void reprise_forget_variables(void)
{
	((struct wire_RequestHead *)reprise_worker->head)->variables = 0;
}

void reprise_each_variable(bool (*each)(const char *, uint32_t, const char *, uint32_t, void *), void *context)
{
	const struct wire_RequestHead *head = reprise_head();
	const unsigned char *at = (const unsigned char *)(head + 1);

	for (uint32_t i = 0; i < head->variables; i++) {
		const struct wire_Variable *sizes = (const struct wire_Variable *)at;
		const char *name = (const char *)(sizes + 1);
		const char *value = name + sizes->name + 1;
		size_t bytes = sizeof *sizes + sizes->name + sizes->value + 2;

		if (at + bytes > reprise_worker->head + sizeof reprise_worker->head
		    || !each(name, sizes->name, value, sizes->value, context)) {
			return;
		}
		at += ZEND_MM_ALIGNED_SIZE_EX(bytes, 8);
	}
}

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
void reprise_register_variables(void *array)
{
	import_process_environment(array);
	reprise_each_variable(reprise_filter_waits() ? add_server_variable : filter_variable, array);
	if (reprise_worker_mode_has_begun()) {
		/* Scripts that are written for FrankenPHP look for it. */
		add_assoc_string((zval *)array, "FRANKENPHP_WORKER", "1");
	}
}

struct sought {
	const char *name;
	size_t size;
	const char *value;
};

static bool compare_name(const char *name, uint32_t name_size, const char *value, uint32_t size, void *context)
{
	struct sought *sought = context;

	if (name_size == sought->size && memcmp(name, sought->name, name_size) == 0) {
		sought->value = value;
		return false;
	}
	return true;
}

/* A variable of the request by its name. PHP-FPM's getenv() finds parameters of FastCGI so. NULL outside of a request.
 */
const char *reprise_variable(const char *name, size_t size)
{
	struct sought sought = {name, size, NULL};

	if (SG(server_context)) {
		reprise_each_variable(compare_name, &sought);
	}
	return sought.value;
}

const char *reprise_about_request(struct reprise_about *about)
{
	const char *id = reprise_variable(ZEND_STRL("REQUEST_ID")), *client = reprise_variable(ZEND_STRL("REMOTE_ADDR"));

	if (!id || !client) {
		return "";
	}
	const char *uri = reprise_head_text(reprise_head()->uri);
	int path = (int)strcspn(uri, "?");

	snprintf(about->text, sizeof about->text, " [%.32s %.*s%s; client %.64s; request %.128s]",
	         reprise_head_text(reprise_head()->method), path < MOST_OF_PATH ? path : MOST_OF_PATH, uri,
	         path > MOST_OF_PATH ? "…" : "", client, id);
	return about->text;
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

void reprise_variables_start(void)
{
	import_process_environment = php_import_environment_variables;
	php_import_environment_variables = import_environment;
	reprise_filter_start(copy_for_filter);
}
