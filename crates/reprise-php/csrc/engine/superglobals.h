/* $_GET, $_POST and the other superglobals, and the arrays of a request from which PHP makes them. */
#ifndef REPRISE_SUPERGLOBALS_H
#define REPRISE_SUPERGLOBALS_H

#include <php.h>

/* An array of that name among the global variables; NULL if there is none. */
zval *reprise_superglobal(const char *name, size_t size);

/* What the request has brought: `which` is TRACK_VARS_SERVER or another of these. */
static inline const zval *reprise_brought(int which)
{
	return &PG(http_globals)[which];
}

/* They are gone, as if there had been no request. */
void reprise_superglobals_forget(void);

/* They have again what the request has brought, without what its code has put into them. */
void reprise_superglobals_reset(void);

#endif
