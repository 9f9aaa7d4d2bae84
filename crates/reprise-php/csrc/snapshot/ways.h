/*
 * How requests from a snapshot are kept apart: three ways. A way is chosen by trying (needs.c), and is the same for all
 * clones of a template.
 *
 * userfaultfd  pages are write-protected one by one, and PAGEMAP_SCAN lists what was written (Linux 6.7)
 * soft-dirty   clear_refs protects all pages, and bit 55 of /proc/self/pagemap shows what was written
 * fork         nothing is found: the process ends after its request
 *
 * In both ways of a rewind the first write to a watched page is a page fault, which the kernel resolves and counts. So
 * "was anything written?" is one question for both (snapshot_faults), and only "what?" differs. On the service stack.
 */
#ifndef REPRISE_WAYS_H
#define REPRISE_WAYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../core/snapshot_state.h"

/* Pages that were found, in the layout of PAGEMAP_SCAN. */
struct page_range {
	uint64_t start, end;
	uint64_t kind;
};

/* Kinds of pages, which are none of the bits that PAGEMAP_SCAN gives. */
#define FOUND_PRESENT (UINT64_C(1) << 32) /* it may differ from the image although no write is marked */
#define FOUND_ABSENT (UINT64_C(1) << 33)  /* the same; it was dropped or never there: zeroes, or its file's content */
#define FOUND_UNMARKED (FOUND_PRESENT | FOUND_ABSENT)

struct watch_way {
	enum ipc_Isolation isolation;
	/* In a new clone: all regions are watched, at the latest after `end`. Opens one descriptor. NULL, or what keeps
	 * that from being so. */
	const char *(*arm)(void);
	/* New memory at an address of the snapshot can be watched. */
	bool (*adopt)(uintptr_t start, uintptr_t end);
	/* These pages are watched, at the latest after `end`; or they are not any more. */
	bool (*watch)(uintptr_t start, uintptr_t end);
	bool (*release)(uintptr_t start, uintptr_t end);
	/* Pages from *from on that were written; sets *from to the end of the search. A negative errno: they are not
	 * watched. `strict`: pages may have been dropped, and mappings replaced. Otherwise the range may hold more than one
	 * region, if `spans`. */
	long (*find)(uint64_t *from, uint64_t end, struct page_range *found, size_t room, bool strict);
	bool spans;
	/* Why what is watched cannot be trusted any more; NULL: it can. Called in each rewind, and after a search. */
	const char *(*meddled)(bool has_searched);
	/* The last step before the faults are counted. True: it has faulted itself. */
	bool (*end)(void);
};

extern const struct watch_way snapshot_by_userfaultfd, snapshot_by_soft_dirty;

/* The way of this snapshot, in a template that rewinds. */
const struct watch_way *snapshot_way(void);

struct faults snapshot_faults(void);
void snapshot_watch_or_recycle(uintptr_t start, uintptr_t end);
/* Ends a change of what is watched. What was written so far does not count against the next request. */
void snapshot_watch_goes_on(void);
void snapshot_remove_guards(void);

#endif
