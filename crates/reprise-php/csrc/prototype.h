/* The prototype of an application. */
#ifndef REPRISE_PROTOTYPE_H
#define REPRISE_PROTOTYPE_H

#include <stdbool.h>

int reprise_prototype_run(void);

#endif
