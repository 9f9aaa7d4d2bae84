/* Whether opcache goes on well: opcache.c. */
#ifndef REPRISE_OPCACHE_H
#define REPRISE_OPCACHE_H

void reprise_opcache_start(void); /* once, when PHP's modules have started */
void reprise_opcache_look(void); /* as a request ends, in a worker: asks for a new generation if it cannot go on well */

#endif
