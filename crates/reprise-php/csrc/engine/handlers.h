/* Handlers of errors and exceptions between the requests of a worker script. */
#ifndef REPRISE_HANDLERS_H
#define REPRISE_HANDLERS_H

void reprise_handlers_note(void);    /* once, when the loop begins */
void reprise_handlers_restore(void); /* after each request */

#endif
