/* PHP's output layer. */
#ifndef REPRISE_OUTPUT_H
#define REPRISE_OUTPUT_H

#include <php.h>
#include <php_output.h>

#include <stdbool.h>

/* No header is being sent, and no file of the application is being opened. */
static inline void engine_output_forget(void)
{
	PG(header_is_being_sent) = 0;
	PG(in_user_include) = 0;
}

/* What php_request_startup does for output: the header X-Powered-By, and the buffers that php.ini asks for. */
void engine_output_begin(void);

/* The output layer is active: php_output_deactivate was not called. */
static inline bool engine_output_is_active(void)
{
	return OG(flags) & PHP_OUTPUT_ACTIVATED;
}

/* An output callback runs. */
static inline bool engine_output_is_in_callback(void)
{
	return OG(running) != NULL;
}

static inline void engine_output_disable(void)
{
	OG(flags) |= PHP_OUTPUT_DISABLED;
}

#endif
