/* What the front is told of the bodies that PHP takes, as its forker is ready: bodies.c. */
#ifndef REPRISE_BODIES_H
#define REPRISE_BODIES_H

#include "wire.h"

struct wire_Bodies;
void reprise_describe_bodies(struct wire_Bodies *bodies);         /* of one that has booted nothing */
void reprise_describe_bodies_of_boot(struct wire_Bodies *bodies); /* whose settings are those of its boot */

#endif
