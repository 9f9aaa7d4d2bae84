/* Handlers of errors and exceptions that the application has set. */
#ifndef REPRISE_HANDLERS_H
#define REPRISE_HANDLERS_H

#include <php.h>

#include <stdbool.h>

/* Of a worker script. */
void engine_handlers_note(void);    /* once, when the loop begins */
void engine_handlers_restore(void); /* after each request */
bool engine_handlers_are_as_noted(void);

/* PHP reads a request before it knows any handler of the application. `handler` keeps the error handler meanwhile. */
static inline void engine_error_handler_hide(zval *handler)
{
	ZVAL_COPY_VALUE(handler, &EG(user_error_handler));
	ZVAL_UNDEF(&EG(user_error_handler));
}

static inline void engine_error_handler_show(const zval *handler)
{
	ZVAL_COPY_VALUE(&EG(user_error_handler), handler);
}

#endif
