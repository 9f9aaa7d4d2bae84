/* GMP's generator of random numbers. */
#ifndef REPRISE_GMP_RANDOM_H
#define REPRISE_GMP_RANDOM_H

#include <php.h>

#include <stdbool.h>

void engine_gmp_watch(void);            /* in a new template, before any code of the application */
bool engine_gmp_was_used(void);         /* since then, by the boot or by this request */
void engine_gmp_seed(zend_long number); /* calls PHP's function */

#endif
