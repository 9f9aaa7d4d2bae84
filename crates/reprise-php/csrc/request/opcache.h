/* Whether opcache still caches scripts. */
#ifndef REPRISE_OPCACHE_H
#define REPRISE_OPCACHE_H

void request_opcache_start(void); /* once, when PHP's modules have started */
void request_opcache_look(
    void); /* at the end of a request, in a worker: asks for a new generation if opcache is stuck */

#endif
