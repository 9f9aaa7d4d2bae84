/* $_SERVER and getenv(), from the head of the request. */

#include "../core/head.h"
#ifndef REPRISE_VARIABLES_H
#define REPRISE_VARIABLES_H

void request_register_variables(void *array);
void request_variables_start(void);

#endif
