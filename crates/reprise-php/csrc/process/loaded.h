/* Whether files that a boot has loaded have changed since. */
#ifndef REPRISE_LOADED_H
#define REPRISE_LOADED_H

#include <stdbool.h>

struct forker;

void process_loaded_prepare(void);               /* in whoever forks a lane's workers, before it forks one */
void process_loaded_note(void);                  /* on PHP's stack, where the boot ends */
void process_loaded_attach(void);                /* in a clone, before faults are counted */
void process_loaded_look(bool is_idle);          /* in a worker between two requests, on any stack */
void process_loaded_tell(struct forker *forker); /* before each Pong */

#endif
