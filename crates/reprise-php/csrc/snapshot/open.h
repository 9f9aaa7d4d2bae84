/* A clone opens its connections. */
#ifndef REPRISE_OPEN_H
#define REPRISE_OPEN_H

void snapshot_connections_open(void); /* in a clone, before its first request */
void snapshot_connections_drop(void); /* as if no hook had run */

#endif
