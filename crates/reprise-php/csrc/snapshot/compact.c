/*
 * Puts PHP's heap in order before the snapshot, so that requests write to few pages: the rewind copies each page that
 * most requests write. This runs on PHP's stack.
 *
 * - Cycles are collected. If the boot ended shortly before PHP collects them, every request would collect them.
 * - Objects without a destructor are marked as destructed. Otherwise PHP marks each of them when a request ends, and
 *   writes to every page that has an object. The mark keeps PHP from calling a destructor, and they have none.
 * - Pages whose slots are all free are given back to ZendMM, as gc_mem_caches() does.
 * - The boot leaves free slots on many other pages, and ZendMM would hand them to requests. They are allocated and
 * kept. So what a request allocates lies on pages that were free, which no rewind has to copy. PHP is not told of what
 * is kept: memory_get_usage() says what it would have said.
 *
 * And it makes room in libc's heap. A request that moves the end of that heap gets new pages each time, because the
 * rewind moves it back: each page is a fault, and no rewind is fast.
 */
#define _GNU_SOURCE
#include <php.h>

#include <stdlib.h>
#include <string.h>

#include "../engine/free_lists.h"
#include "../engine/heap.h"
#include "../engine/objects.h"
#include "../engine/request_state.h"
#include "compact.h"

/* Bytes. A connection to SQLite keeps 2,000 KiB of its database in libc's heap. Of room that no request uses, a clone
 * has page tables alone. */
#define LIBC_ROOM (5 << 19)

bool snapshot_collect_cycles(void)
{
	if (gc_enabled()) {
		gc_collect_cycles();
	}
	return !engine_has_exception();
}

void snapshot_keep_free_slots(void)
{
	void *const *lists = engine_free_lists();
	struct engine_heap_usage usage = engine_heap_usage();

	for (size_t bin = 0; lists && bin < engine_bin_count(); bin++) {
		while (lists[bin]) {
			emalloc(engine_bin_size(bin));
		}
	}
	engine_heap_set_usage(usage);
}

/* libc never gives memory back to the kernel (main.c), so what was free once stays a part of its heap. */
void snapshot_make_room(void)
{
	void *volatile room = malloc(LIBC_ROOM);

	free(room);
}

void snapshot_compact(void)
{
	engine_mark_destructed();
	engine_heap_collect();
	engine_heap_look();
}
