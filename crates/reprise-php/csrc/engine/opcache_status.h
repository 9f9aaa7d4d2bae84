/* What opcache_get_status() returns, whatever opcache.restrict_api says. */
#ifndef REPRISE_OPCACHE_STATUS_H
#define REPRISE_OPCACHE_STATUS_H

#include <php.h>

#include <stdbool.h>

void engine_opcache_find_status(void); /* once, when PHP's modules have started */
bool engine_opcache_is_there(void);    /* it is loaded */
bool engine_opcache_tells(void);       /* it is loaded and enabled */
/* The result of opcache_get_status(), with or without the scripts. The caller frees it. False: there is no result. */
bool engine_opcache_status(bool scripts, zval *status);

/* Between these two calls opcache sees a request: it holds the lock that keeps it from restarting. */
void engine_opcache_begin_request(void);
void engine_opcache_end_request(void);

#endif
