/* The end of a request. On PHP's stack. */
#ifndef REPRISE_END_H
#define REPRISE_END_H

void snapshot_end(void);

#endif
