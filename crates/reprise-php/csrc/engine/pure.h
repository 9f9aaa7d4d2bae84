/* What is known of a callable by its form. */
#ifndef REPRISE_PURE_H
#define REPRISE_PURE_H

#include <php.h>

struct engine_origin {
	const zend_string *class, *called, *function; /* `called`: the class that it was called by; NULL: there is none */
	const zend_string *file;                      /* NULL: it is PHP's own */
	uint32_t line;
};

/* NULL, or why its result can depend on more than its arguments: it has an object or static variables, or nothing
 * tells it from others. What it calls is not looked at. */
const char *engine_why_impure(const zend_fcall_info_cache *callable);
void engine_origin_of(const zend_fcall_info_cache *callable, struct engine_origin *origin);

#endif
