/* What each process of reprise-php has of its own. NULL until main.c has made service memory. */
#ifndef REPRISE_STATE_H
#define REPRISE_STATE_H

struct worker_state;
struct forker;
struct data_state;
struct snapshot_state;

extern struct worker_state *reprise_worker;
extern struct forker *reprise_forker; /* this process' own */
extern struct data_state *reprise_data;
extern struct snapshot_state *snapshot;
extern unsigned char *reprise_service_stack;

#endif
