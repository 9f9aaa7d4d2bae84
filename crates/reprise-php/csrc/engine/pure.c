/* What is known of a callable by its form: whether it can be a pure function, and where it is declared. */
#include <php.h>

#include "pure.h"

const char *engine_why_impure(const zend_fcall_info_cache *callable)
{
	const zend_function *function = callable->function_handler;

	/* PHP makes such a function for each call, and has let go of it. */
	if (!function || function->common.fn_flags & ZEND_ACC_CALL_VIA_TRAMPOLINE) {
		return "it is called by __call() or __callStatic()";
	}
	if (callable->object && !(function->common.fn_flags & ZEND_ACC_STATIC)) {
		return "it has an object";
	}
	if (function->type == ZEND_USER_FUNCTION && function->op_array.static_variables) {
		return "it has static variables, or variables of `use`";
	}
	return NULL;
}

void engine_origin_of(const zend_fcall_info_cache *callable, struct engine_origin *origin)
{
	const zend_function *function = callable->function_handler;

	*origin = (struct engine_origin){
	    .class = function->common.scope ? function->common.scope->name : NULL,
	    .called = callable->called_scope ? callable->called_scope->name : NULL,
	    .function = function->common.function_name,
	};
	if (function->type == ZEND_USER_FUNCTION) {
		origin->file = function->op_array.filename;
		origin->line = function->op_array.line_start;
	}
}
