/* A request begins and ends while its script goes on. */
#ifndef REPRISE_CYCLE_H
#define REPRISE_CYCLE_H

void reprise_worker_mode_begin_request(void);
void reprise_worker_mode_end_request(void);
void reprise_worker_mode_end_broken_request(void); /* after a fatal error; the script has ended */

#endif
