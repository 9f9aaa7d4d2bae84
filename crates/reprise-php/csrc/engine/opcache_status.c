/*
 * opcache's module and its function opcache_get_status(). opcache.restrict_api may keep scripts from calling the
 * function. So its handler is called, with a call frame that is made here.
 */
#define _GNU_SOURCE
#include <php.h>
#include <php_ini.h>
#include <SAPI.h>

#include <string.h>

#include "opcache_status.h"
#include "step.h"

static zend_internal_function status_function = {.type = ZEND_INTERNAL_FUNCTION};

static zend_module_entry *opcache_module(void)
{
	return zend_hash_str_find_ptr(&module_registry, ZEND_STRL("zend opcache"));
}

void engine_opcache_find_status(void)
{
	zend_module_entry *module = opcache_module();

	for (const zend_function_entry *entry = module ? module->functions : NULL; entry && entry->fname; entry++) {
		if (strcmp(entry->fname, "opcache_get_status") == 0) {
			status_function.function_name = zend_string_init(entry->fname, strlen(entry->fname), 1);
			status_function.handler = entry->handler;
		}
	}
}

bool engine_opcache_is_there(void)
{
	return status_function.handler != NULL;
}

bool engine_opcache_tells(void)
{
	return status_function.handler && zend_ini_long(ZEND_STRL("opcache.enable"), 0);
}

bool engine_opcache_status(bool scripts, zval *status)
{
	/* A call frame with one argument. No PHP code runs, and no request is needed. */
	union {
		zend_execute_data call;
		zval slots[ZEND_CALL_FRAME_SLOT + 1];
	} frame = {0};
	char *allowed = zend_ini_string("opcache.restrict_api", sizeof "opcache.restrict_api" - 1, 0);
	char *path = SG(request_info).path_translated;

	frame.call.func = (zend_function *)&status_function;
	frame.call.prev_execute_data = EG(current_execute_data);
	ZEND_CALL_NUM_ARGS(&frame.call) = 1;
	ZVAL_BOOL(ZEND_CALL_ARG(&frame.call, 1), scripts);
	ZVAL_NULL(status);
	EG(current_execute_data) = &frame.call;
	/* opcache compares this path with opcache.restrict_api. */
	if (allowed && *allowed) {
		SG(request_info).path_translated = allowed;
	}
	STEP(status_function.handler(&frame.call, status));
	SG(request_info).path_translated = path;
	EG(current_execute_data) = frame.call.prev_execute_data;
	if (Z_TYPE_P(status) != IS_ARRAY) {
		zval_ptr_dtor(status);
		return false;
	}
	return true;
}

void engine_opcache_begin_request(void)
{
	zend_module_entry *opcache = opcache_module();

	if (opcache && opcache->request_startup_func) {
		opcache->request_startup_func(opcache->type, opcache->module_number);
	}
}

void engine_opcache_end_request(void)
{
	zend_module_entry *opcache = opcache_module();

	if (opcache && opcache->post_deactivate_func) {
		opcache->post_deactivate_func();
	}
}
