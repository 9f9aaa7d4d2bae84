/* What PHP's own functions remember after a call, between two requests of a worker script. */
#ifndef REPRISE_FUNCTION_STATE_H
#define REPRISE_FUNCTION_STATE_H

#include <stdbool.h>

void engine_functions_note(void);   /* once, when the loop begins */
void engine_functions_forget(void); /* after each request */
void engine_functions_restore_signal_handlers(void);
bool engine_functions_are_as_noted(void);                  /* nothing is destroyed when they are forgotten */
bool engine_functions_enter_directory(const char *script); /* false: PHP's function has failed */

#endif
