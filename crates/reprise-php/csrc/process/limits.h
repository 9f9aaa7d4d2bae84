/* Limits of a worker. */
#ifndef REPRISE_LIMITS_H
#define REPRISE_LIMITS_H

#include <stdbool.h>

void process_limits_start(void); /* in a new worker */
bool process_is_spent(void);     /* the worker has reached a limit */
void process_end_if_spent(void); /* then: a fresh worker takes its place */

#endif
