/* Where descriptors are. */
#ifndef REPRISE_DESCRIPTORS_H
#define REPRISE_DESCRIPTORS_H

/* Moves a descriptor above ipc_SERVICE_DESCRIPTOR, close-on-exec. Keeps it where it is if the limit does not allow
 * that. */
int reprise_lift(int descriptor);

#endif
