/* What opcache says of itself, whoever may ask it. */
#ifndef REPRISE_OPCACHE_STATUS_H
#define REPRISE_OPCACHE_STATUS_H

#include <php.h>

#include <stdbool.h>

void reprise_opcache_find_status(void); /* once, when PHP's modules have started */
bool reprise_opcache_is_there(void);    /* is it loaded? */
bool reprise_opcache_tells(void);       /* is there an opcache that can be asked? */
/* What opcache_get_status() answers, with or without scripts; false if it is not there. The caller frees it. */
bool reprise_opcache_status(bool scripts, zval *status);

/* opcache takes what lies between for a request: it holds the lock that keeps it from restarting. */
void reprise_opcache_begin_request(void);
void reprise_opcache_end_request(void);

#endif
