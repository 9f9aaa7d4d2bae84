/* What is known of a callable by its form: whether it can be a pure function, and where it is declared. */
#include <php.h>

#include "pure.h"

static bool is_of_eval(const zend_string *file)
{
	static const char end[] = "eval()'d code";
	size_t size = sizeof end - 1;

	return ZSTR_LEN(file) >= size && memcmp(ZSTR_VAL(file) + ZSTR_LEN(file) - size, end, size) == 0;
}

const char *engine_why_impure(const zend_fcall_info_cache *callable)
{
	const zend_function *function = callable->function_handler;

	/* PHP makes such a function for each call, and has let go of it. */
	if (!function || function->common.fn_flags & ZEND_ACC_CALL_VIA_TRAMPOLINE) {
		return "it is called by __call() or __callStatic()";
	}
	/* Two on one line have one name, one file and one line. A closure of a named function, f(...), is that function. */
	uint32_t flags = function->common.fn_flags;
	if ((flags & ZEND_ACC_CLOSURE) && !(flags & ZEND_ACC_FAKE_CLOSURE)) {
		return "it is a closure, which has no name";
	}
	if (callable->object && !(function->common.fn_flags & ZEND_ACC_STATIC)) {
		return "it has an object";
	}
	if (function->type == ZEND_USER_FUNCTION && function->op_array.static_variables) {
		return "it has static variables";
	}
	if (function->type == ZEND_USER_FUNCTION && is_of_eval(function->op_array.filename)) {
		return "it is declared by eval(), whose code may be another each time";
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
