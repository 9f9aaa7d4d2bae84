/*
 * Handlers of errors and exceptions that a worker script has set before its loop, and PHP's stacks of replaced
 * handlers.
 */
#include <php.h>

#include "handlers.h"

static struct {
	zval error_handler, exception_handler;
	int error_handler_reporting;
	int error_handlers, exception_handlers; /* depth of PHP's stacks of replaced handlers */
} kept;

void engine_handlers_note(void)
{
	ZVAL_COPY(&kept.error_handler, &EG(user_error_handler));
	ZVAL_COPY(&kept.exception_handler, &EG(user_exception_handler));
	kept.error_handler_reporting = EG(user_error_handler_error_reporting);
	kept.error_handlers = zend_stack_count(&EG(user_error_handlers));
	kept.exception_handlers = zend_stack_count(&EG(user_exception_handlers));
}

static bool is_same(const zval *now, const zval *before)
{
	return Z_TYPE_P(now) == Z_TYPE_P(before) && (!Z_REFCOUNTED_P(now) || Z_COUNTED_P(now) == Z_COUNTED_P(before));
}

bool engine_handlers_are_as_noted(void)
{
	return zend_stack_count(&EG(user_error_handlers)) <= kept.error_handlers
	       && zend_stack_count(&EG(user_exception_handlers)) <= kept.exception_handlers
	       && is_same(&EG(user_error_handler), &kept.error_handler)
	       && is_same(&EG(user_exception_handler), &kept.exception_handler);
}

static void restore_handler(zval *now, zval *before, zend_stack *earlier, int depth)
{
	while (zend_stack_count(earlier) > depth) {
		zval_ptr_dtor((zval *)zend_stack_top(earlier));
		zend_stack_del_top(earlier);
	}
	if (!is_same(now, before)) {
		zval old;
		ZVAL_COPY_VALUE(&old, now);
		ZVAL_COPY(now, before);
		zval_ptr_dtor(&old);
	}
}

/* A handler that a request has set belongs to the request, and is removed. */
void engine_handlers_restore(void)
{
	while (zend_stack_count(&EG(user_error_handlers_error_reporting)) > kept.error_handlers) {
		zend_stack_del_top(&EG(user_error_handlers_error_reporting));
	}
	restore_handler(&EG(user_error_handler), &kept.error_handler, &EG(user_error_handlers), kept.error_handlers);
	restore_handler(&EG(user_exception_handler), &kept.exception_handler, &EG(user_exception_handlers),
	                kept.exception_handlers);
	EG(user_error_handler_error_reporting) = kept.error_handler_reporting;
}
