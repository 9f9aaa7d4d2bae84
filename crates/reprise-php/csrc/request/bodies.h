/* Which request bodies PHP takes: a forker tells the front when it is ready. */
#ifndef REPRISE_BODIES_H
#define REPRISE_BODIES_H

#include "ipc.h"

struct ipc_Bodies;
void request_describe_bodies(struct ipc_Bodies *bodies);         /* of a forker that has booted nothing */
void request_describe_bodies_of_boot(struct ipc_Bodies *bodies); /* of a template: the settings of its boot */

#endif
