/* A request begins and ends while its script goes on. */
#ifndef REPRISE_CYCLE_H
#define REPRISE_CYCLE_H

void worker_begin_request(void);
void worker_end_request(void);
void worker_end_broken_request(void); /* after a fatal error; the script has ended */

#endif
