/* Shutdown functions that a worker script has registered before its loop. */
#ifndef REPRISE_SHUTDOWN_FUNCTIONS_H
#define REPRISE_SHUTDOWN_FUNCTIONS_H

#include <php.h>

void engine_shutdown_functions_keep(void);    /* the loop begins: the end of a request does not call them */
void engine_shutdown_functions_restore(void); /* the script ends: it calls them, then those registered since */

/* A function of ours that PHP calls behind the shutdown functions that are there now. It has the name of
 * reprise_cache(), for which it works. */
void engine_shutdown_function_add(zif_handler function);

#endif
