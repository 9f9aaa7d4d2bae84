/* Whether a request has called exit(). */
#ifndef REPRISE_EXITS_H
#define REPRISE_EXITS_H

#include <stdbool.h>

void reprise_exits_watch(void); /* once, when PHP starts its modules */
void reprise_exit_forget(void); /* a request begins */
void reprise_exit_note(void);
bool reprise_exit_was_called(void);

#endif
