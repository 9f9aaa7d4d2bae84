/* Exceptions that no code has caught. See exceptions.h. */
#include <php.h>
#include <zend_exceptions.h>

#include "../core/log.h"
#include "exceptions.h"
#include "exits.h"
#include "oom.h"

static bool is_damaged;

bool engine_is_damaged(void)
{
	return is_damaged;
}

bool engine_report_exception(const char *what)
{
	zval held, *message;

	if (!EG(exception)) {
		return true;
	}
	if (zend_is_unwind_exit(EG(exception)) || zend_is_graceful_exit(EG(exception))) {
		return false;
	}
	zend_object *exception = EG(exception);
	message = zend_read_property(zend_get_exception_base(exception), exception, ZEND_STRL("message"), true, &held);
	reprise_log_line("error", "%s: %s: %s", what, ZSTR_VAL(exception->ce->name),
	                 Z_TYPE_P(message) == IS_STRING ? Z_STRVAL_P(message) : "");
	zend_clear_exception();
	return true;
}

void engine_settle_exception(void)
{
	is_damaged = engine_forget_exhausted_memory() || is_damaged;
	if (!EG(exception)) {
		return;
	}
	if (zend_is_unwind_exit(EG(exception))) {
		engine_exit_note();
	} else if (!zend_is_graceful_exit(EG(exception))) {
		if (Z_TYPE(EG(user_exception_handler)) != IS_UNDEF) {
			zend_user_exception_handler();
		}
		if (EG(exception) && !zend_is_unwind_exit(EG(exception))) {
			zend_exception_error(EG(exception), E_ERROR);
		}
	}
	if (EG(exception)) {
		OBJ_RELEASE(EG(exception));
		EG(exception) = NULL;
	}
}
