/* What PHP's own functions remember after a call, between two requests of a worker script. */
#ifndef REPRISE_FUNCTION_STATE_H
#define REPRISE_FUNCTION_STATE_H

void reprise_functions_note(void);   /* once, when the loop begins */
void reprise_functions_forget(void); /* after each request */
void reprise_functions_enter_directory(const char *script);

#endif
