/* The soft limit of a request. */
#ifndef REPRISE_OVERTIME_H
#define REPRISE_OVERTIME_H

void process_overtime_start(void);  /* once, when PHP's modules have started */
void process_overtime_watch(void);  /* in each process that runs code */
void process_overtime_forget(void); /* a request begins */

#endif
