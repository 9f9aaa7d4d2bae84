/* What a worker may do and use: limits.c. */
#ifndef REPRISE_LIMITS_H
#define REPRISE_LIMITS_H

#include <stdbool.h>

void reprise_limits_start(void); /* in a new worker */
bool reprise_is_spent(void);     /* has it done or used what it may? */
void reprise_end_if_spent(void); /* if that said so: gives its place to a fresh one */

#endif
