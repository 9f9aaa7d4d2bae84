/*
 * Whether code of the application may run when a request of a worker script ends: shutdown functions, callbacks of
 * output and headers, handlers of sessions, filters of php://input, and destructors of what the end destroys.
 */
#include <php.h>
#include <php_output.h>
#include <SAPI.h>
#include <ext/session/php_session.h>
#include <ext/standard/basic_functions.h>

#include "function_state.h"
#include "handlers.h"
#include "late_code.h"
#include "superglobals.h"

static bool has_output_callback(void)
{
	php_output_handler **handlers = zend_stack_base(&OG(handlers));

	for (int i = 0; i < zend_stack_count(&OG(handlers)); i++) {
		if (handlers[i]->flags & PHP_OUTPUT_HANDLER_USER) {
			return true;
		}
	}
	return false;
}

bool engine_late_code_may_run(void)
{
	return BG(user_shutdown_function_names) || has_output_callback() || Z_TYPE(SG(callback_func)) != IS_UNDEF
	       || PS(session_status) == php_session_active || SG(request_info).request_body
	       || !engine_superglobals_are_as_brought() || !engine_handlers_are_as_noted()
	       || !engine_functions_are_as_noted();
}
