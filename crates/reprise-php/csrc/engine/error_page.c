/*
 * The page of a fatal error. See error_page.h. The page is PHP code that the supervisor has sent: an expression that is
 * a function of what is known of the error.
 */
#include <php.h>
#include <php_output.h>
#include <SAPI.h>
#include <zend_builtin_functions.h>
#include <zend_observer.h>

#include <string.h>

#include "../core/log.h"
#include "../core/options.h"
#include "error_page.h"
#include "oom.h"
#include "shutdown_functions.h"

/* Calls of a stack trace. */
#define MOST_CALLS 100
/* What the page may need where the request has used up its memory. */
#define PAGE_MEMORY (32 << 20)

#define FATAL (E_ERROR | E_PARSE | E_CORE_ERROR | E_COMPILE_ERROR | E_USER_ERROR | E_RECOVERABLE_ERROR)

/* What the response was like when the error came. */
struct output {
	int level;
	zend_long length;
	bool is_sent;
};

/* Of the request that runs. */
static struct {
	bool is_noted;
	bool displayed;
	zval error;
	struct output before;
} page;

static struct output output_now(void)
{
	struct output now = {.level = php_output_get_level(), .is_sent = SG(headers_sent)};
	zval length;

	if (php_output_get_length(&length) == SUCCESS && Z_TYPE(length) == IS_LONG) {
		now.length = Z_LVAL(length);
	}
	return now;
}

static bool is_handled(int type)
{
	bool has_handler = Z_TYPE(EG(user_error_handler)) != IS_UNDEF;

	return (type & (E_USER_ERROR | E_RECOVERABLE_ERROR)) && has_handler
	       && (EG(user_error_handler_error_reporting) & type);
}

/* Of an error without an exception: an exception's own trace is in its message. */
static void add_trace(zval *error, const char *message)
{
	zval trace;

	if (!EG(current_execute_data) || strncmp(message, "Allowed memory size", 19) == 0
	    || strncmp(message, "Out of memory", 13) == 0) {
		return;
	}
	zend_fetch_debug_backtrace(&trace, 0, DEBUG_BACKTRACE_IGNORE_ARGS, MOST_CALLS);
	add_assoc_zval(error, "trace", &trace);
}

/* The application has shown the error itself. */
static bool is_answered(void)
{
	struct output now = output_now();

	/* Where memory was exhausted, PHP has dropped what was there, and then there is less. */
	if (now.is_sent != page.before.is_sent || now.level > page.before.level) {
		return true;
	}
	return now.level == page.before.level && now.length != page.before.length;
}

static void call_page(void)
{
	zval function, result;

	ZVAL_UNDEF(&result);
	if (zend_eval_stringl_ex(reprise_options.error_page, strlen(reprise_options.error_page), &function,
	                         "reprise dev: the page of errors", false)
	    != SUCCESS) {
		return;
	}
	if (call_user_function(NULL, NULL, &function, &result, 1, &page.error) == SUCCESS) {
		zval_ptr_dtor(&result);
	}
	zval_ptr_dtor(&function);
}

static ZEND_FUNCTION(show)
{
	ZEND_PARSE_PARAMETERS_NONE();
	if (!page.is_noted) {
		return;
	}
	page.is_noted = false;
	PG(display_errors) = page.displayed;
	if (!is_answered()) {
		(void)engine_forget_exhausted_memory();
		zend_long limit = PG(memory_limit);
		if (limit > 0) {
			zend_set_memory_limit(limit + PAGE_MEMORY);
		}
		add_assoc_bool(&page.error, "is_sent", SG(headers_sent));
		call_page();
		/* php_request_shutdown drops the output of a request that holds more than its limit. */
		php_output_end_all();
	}
	zval_ptr_dtor(&page.error);
}

static void note(int type, zend_string *file, uint32_t line, zend_string *message)
{
	if (!(type & FATAL) || is_handled(type) || page.is_noted || !SG(request_info).request_method
	    || EG(flags) & EG_FLAGS_IN_SHUTDOWN) {
		return;
	}
	page.is_noted = true;
	page.before = output_now();
	array_init(&page.error);
	add_assoc_long(&page.error, "type", type & E_ALL);
	add_assoc_str(&page.error, "message", zend_string_copy(message));
	add_assoc_string(&page.error, "file", file ? ZSTR_VAL(file) : "");
	add_assoc_long(&page.error, "line", line);
	add_trace(&page.error, ZSTR_VAL(message));
	/* The page shows it, and nothing else has to. */
	page.displayed = PG(display_errors);
	PG(display_errors) = 0;
	engine_shutdown_function_add(ZEND_FN(show));
}

void engine_error_page_start(void)
{
	if (reprise_options.error_page) {
		zend_observer_error_register(note);
	}
}
