/* A forker makes a worker. */
#ifndef REPRISE_WORKER_PROCESS_H
#define REPRISE_WORKER_PROCESS_H

struct forker;

long process_fork_worker(struct forker *forker); /* 0: in the new worker; otherwise its pid or a negative errno */

#endif
