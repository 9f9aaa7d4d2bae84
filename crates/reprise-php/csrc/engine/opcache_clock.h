/* The time that opcache keeps. */
#ifndef REPRISE_OPCACHE_CLOCK_H
#define REPRISE_OPCACHE_CLOCK_H

void engine_opcache_clock_watch(void); /* before php_request_startup */
void engine_opcache_clock_find(void);  /* after it: fails the boot if the clock cannot be found */
void engine_opcache_clock_renew(void); /* for each request */

#endif
