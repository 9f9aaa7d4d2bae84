/* Whether opcache still caches scripts. */
#ifndef REPRISE_OPCACHE_H
#define REPRISE_OPCACHE_H

void reprise_opcache_start(void); /* once, when PHP's modules have started */
void reprise_opcache_look(
    void); /* at the end of a request, in a worker: asks for a new generation if opcache is stuck */

#endif
