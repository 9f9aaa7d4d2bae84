/* Handlers in front of PHP's own functions. */
#ifndef REPRISE_WRAP_H
#define REPRISE_WRAP_H

#include <php.h>

/* Puts a handler in front of a function. `wrapped` gets the function's own handler. Without such a function it stays
 * NULL. */
void engine_wrap_function(const char *name, zif_handler wrapper, zif_handler *wrapped);

#endif
