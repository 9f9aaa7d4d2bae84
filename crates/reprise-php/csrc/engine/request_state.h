/*
 * What PHP's globals say of the running request. These functions are inline: each is one load or store on the request
 * path.
 */
#ifndef REPRISE_REQUEST_STATE_H
#define REPRISE_REQUEST_STATE_H

#include <php.h>
#include <ext/standard/basic_functions.h>

#include <stdbool.h>

/* PHP's exit status after a fatal error, or after an exception that no code has caught. */
#define REPRISE_STATUS_FAILED 255

static inline int engine_exit_status(void)
{
	return (int)EG(exit_status);
}

/* A request begins: the status and the connection are those of no request. */
static inline void engine_forget_outcome(void)
{
	EG(exit_status) = 0;
	PG(connection_status) = PHP_CONNECTION_NORMAL;
}

static inline void engine_connection_is_aborted(void)
{
	PG(connection_status) = PHP_CONNECTION_ABORTED;
}

/* PHP reports errors differently while it reads a request. */
static inline void engine_begin_startup(void)
{
	PG(during_request_startup) = true;
}

static inline void engine_end_startup(void)
{
	PG(during_request_startup) = false;
}

/* As if no code ran: what PHP says about input that it cannot parse names no file then. */
static inline void *engine_leave_code(void)
{
	void *frame = EG(current_execute_data);

	EG(current_execute_data) = NULL;
	return frame;
}

static inline void engine_return_to_code(void *frame)
{
	EG(current_execute_data) = frame;
}

static inline void engine_start_time_limit(bool resets_signals)
{
	zend_set_timeout(EG(timeout_seconds), resets_signals);
}

static inline bool engine_has_exception(void)
{
	return EG(exception) != NULL;
}

/* A fatal error has cut off a function of PHP. */
static inline bool engine_is_unclean(void)
{
	return CG(unclean_shutdown);
}

static inline bool engine_is_in_shutdown(void)
{
	return EG(flags) & EG_FLAGS_IN_SHUTDOWN;
}

/* What php_request_shutdown does first. */
static inline void engine_begin_shutdown(void)
{
	EG(flags) |= EG_FLAGS_IN_SHUTDOWN;
	EG(current_execute_data) = NULL;
}

/* php_deactivate_ticks, which libphp does not export. */
static inline void engine_forget_ticks(void)
{
	if (PG(tick_functions).head) {
		zend_llist_clean(&PG(tick_functions));
	}
}

/* PHP sets the locale to C when a request ends that has changed it. From here on, the present locale counts as
 * unchanged. */
static inline void engine_keep_locale(void)
{
	BG(locale_changed) = 0;
}

/* Whether a script could allocate so many bytes more. */
static inline bool engine_has_memory(size_t bytes)
{
	return PG(memory_limit) < 0 || zend_memory_usage(true) + bytes < (size_t)PG(memory_limit);
}

#endif
