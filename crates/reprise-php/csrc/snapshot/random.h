/* Random numbers: random.c. */
#ifndef REPRISE_RANDOM_H
#define REPRISE_RANDOM_H

#include <stdbool.h>

void reprise_random_share(void);
void reprise_random_part(void);
void reprise_random_start(void);
void reprise_random_prepare(void);
void reprise_random_renew(void);

bool reprise_random_is_preloaded(void);

#endif
