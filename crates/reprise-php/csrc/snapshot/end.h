/* The end of a request, on PHP's stack: end.c. */
#ifndef REPRISE_END_H
#define REPRISE_END_H

void reprise_end(void);

#endif
