/* What PHP's own functions remember after a call, between two requests of a worker script. */
#ifndef REPRISE_FUNCTION_STATE_H
#define REPRISE_FUNCTION_STATE_H

#include <stdbool.h>

void reprise_functions_note(void);   /* once, when the loop begins */
void reprise_functions_forget(void); /* after each request */
void reprise_functions_restore_signal_handlers(void);
bool reprise_functions_are_as_noted(void); /* nothing is destroyed when they are forgotten */
void reprise_functions_enter_directory(const char *script);

#endif
