/* What each process of reprise-php has of its own, in service memory, which no rewind touches (main.c). */
#include "state.h"

struct worker_state *reprise_worker;
struct forker *reprise_forker;
struct data_state *reprise_data;
struct snapshot_state *snapshot;
unsigned char *reprise_service_stack;
