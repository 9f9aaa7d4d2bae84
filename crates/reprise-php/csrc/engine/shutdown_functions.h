/* Shutdown functions that a worker script has registered before its loop. */
#ifndef REPRISE_SHUTDOWN_FUNCTIONS_H
#define REPRISE_SHUTDOWN_FUNCTIONS_H

void reprise_shutdown_functions_keep(void);    /* the loop begins: the end of a request does not call them */
void reprise_shutdown_functions_restore(void); /* the script ends: it calls them, then those registered since */

#endif
