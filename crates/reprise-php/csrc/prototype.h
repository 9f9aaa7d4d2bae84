/* The prototype of an application. */
#ifndef REPRISE_PROTOTYPE_H
#define REPRISE_PROTOTYPE_H

#include <stdbool.h>

int reprise_prototype_run(void);
struct forker;
long reprise_fork_worker(struct forker *forker); /* 0: in the new worker; otherwise its pid or a negative errno */

#endif
