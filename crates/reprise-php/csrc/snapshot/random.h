/* Generators of random numbers are seeded for each request. */
#ifndef REPRISE_RANDOM_H
#define REPRISE_RANDOM_H

#include <stdbool.h>

void reprise_random_share(void);   /* in the prototype, when PHP's modules have started */
void reprise_random_part(void);    /* in each process that the prototype has forked */
void reprise_random_start(void);   /* in a new template, before any code of the application */
void reprise_random_prepare(void); /* at the snapshot */
void reprise_random_renew(void);   /* for each request */

bool reprise_random_is_preloaded(void); /* the prototype has run code of the application */

#endif
