/*
 * Handlers in front of PHP's own functions. They are set before any code is compiled.
 */
#include <php.h>

#include <string.h>

#include "wrap.h"

void engine_wrap_function(const char *name, zif_handler wrapper, zif_handler *wrapped)
{
	zend_function *function = zend_hash_str_find_ptr(CG(function_table), name, strlen(name));

	if (function && function->type == ZEND_INTERNAL_FUNCTION) {
		*wrapped = function->internal_function.handler;
		function->internal_function.handler = wrapper;
	}
}
