/* What a rewind needs of the kernel. */
#ifndef REPRISE_NEEDS_H
#define REPRISE_NEEDS_H

#include <stdbool.h>
#include <stddef.h>

#include "ipc.h"

/* The text of what was tried: a word and an errno for each, 0 if it works; `soft` is an enum softdirty_step. */
#define REPRISE_NEEDS 128
/* In it, if userfaultfd was not tried, because that ends the process. */
#define REPRISE_NEEDS_KILLED "userfaultfd=-1"

/* The ways of a rewind that work here. */
struct snapshot_ways {
	bool userfaultfd, soft_dirty;
};

struct snapshot_ways snapshot_try_needs(bool may_try_userfaultfd, char *text, size_t size);

/* The best of these ways for who asks for this isolation; ipc_Isolation_Fork: none of them. */
enum ipc_Isolation snapshot_best_way(enum ipc_Isolation wanted, struct snapshot_ways ways);

#endif
