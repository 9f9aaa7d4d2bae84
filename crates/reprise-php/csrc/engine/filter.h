/* ext/filter's own copy of $_SERVER. */
#ifndef REPRISE_FILTER_H
#define REPRISE_FILTER_H

#include <stdbool.h>

void engine_filter_watch(void); /* before PHP compiles any code */
/* All extensions are loaded. `copy` gives ext/filter the variables of the request. */
void engine_filter_start(void (*copy)(void));
/* The variables of a request are known. True: ext/filter would copy them and change none. It gets them when the request
 * asks for its copy. */
bool engine_filter_waits(void);
/* The request ends: what asks for the copy later gets none. */
void engine_filter_forget(void);

#endif
