/* $_GET, $_POST and the other superglobals, and the arrays of a request from which PHP makes them. */
#ifndef REPRISE_SUPERGLOBALS_H
#define REPRISE_SUPERGLOBALS_H

#include <php.h>

#include <stdbool.h>

/* An array of that name among the global variables; NULL if there is none. */
zval *engine_superglobal(const char *name, size_t size);

/* Input of the request: `which` is TRACK_VARS_SERVER or another of these. */
static inline const zval *engine_brought(int which)
{
	return &PG(http_globals)[which];
}

/* Removes them, as if there had been no request. */
void engine_superglobals_forget(void);

/* They have the input of the request again, and nothing that its code has put into them. */
void engine_superglobals_reset(void);

/* They have the input of the request and nothing else, so nothing in them is destroyed when they are reset. */
bool engine_superglobals_are_as_brought(void);

#endif
