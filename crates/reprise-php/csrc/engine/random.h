/* Generators of random numbers are seeded for each request. */
#ifndef REPRISE_RANDOM_H
#define REPRISE_RANDOM_H

#include <stdbool.h>

void engine_random_share(void);   /* in the prototype, when PHP's modules have started */
void engine_random_part(void);    /* in each process that the prototype has forked */
void engine_random_start(void);   /* in a new template, before any code of the application */
void engine_random_prepare(void); /* at the snapshot */
void engine_random_renew(void);   /* for each request */

#endif
