/* The last error that PHP has reported, for error_get_last(). */
#ifndef REPRISE_LAST_ERROR_H
#define REPRISE_LAST_ERROR_H

#include <php.h>

/* NULL: there was no error. */
static inline const char *engine_last_error(void)
{
	return PG(last_error_message) ? ZSTR_VAL(PG(last_error_message)) : NULL;
}

/* NULL: the error is in no file. */
static inline const char *engine_last_error_file(void)
{
	return PG(last_error_file) ? ZSTR_VAL(PG(last_error_file)) : NULL;
}

static inline int engine_last_error_line(void)
{
	return PG(last_error_lineno);
}

static inline void engine_forget_last_error(void)
{
	if (PG(last_error_message)) {
		zend_string_release(PG(last_error_message));
		PG(last_error_message) = NULL;
	}
	if (PG(last_error_file)) {
		zend_string_release(PG(last_error_file));
		PG(last_error_file) = NULL;
	}
}

#endif
