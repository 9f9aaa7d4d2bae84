/* Whether a request has called exit(). */
#ifndef REPRISE_EXITS_H
#define REPRISE_EXITS_H

#include <stdbool.h>

void engine_exits_watch(void); /* once, when PHP starts its modules */
void engine_exit_forget(void); /* a request begins */
void engine_exit_note(void);
bool engine_exit_was_called(void);

#endif
