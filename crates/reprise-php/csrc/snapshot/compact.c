/*
 * Puts PHP's heap in order before the snapshot, so that requests write to few pages: the rewind copies each page that
 * most requests write. This runs on PHP's stack.
 *
 * - Cycles are collected. If the boot ended shortly before PHP collects them, every request would collect them.
 * - Objects without a destructor are marked as destructed. Otherwise PHP marks each of them when a request ends, and
 *   writes to every page that has an object. The mark keeps PHP from calling a destructor, and they have none.
 * - The boot leaves free slots in all of its memory, and ZendMM hands them out in the order in which they became free.
 *   They are sorted, for each size: slots on pages with many free slots come first.
 *
 * Symfony's /hello then writes to 144 pages instead of 245.
 */
#define _GNU_SOURCE
#include <php.h>

#include <stdlib.h>
#include <string.h>

#include "../engine/free_lists.h"
#include "../engine/objects.h"
#include "../engine/request_state.h"
#include "compact.h"
#include "snapshot.h"

struct slot {
	uintptr_t address;
	uint32_t on_page; /* free slots on its page, and itself */
};

static uintptr_t page_of(const struct slot *slot)
{
	return slot->address & ~(PAGE - 1);
}

static int by_address(const void *left, const void *right)
{
	uintptr_t a = ((const struct slot *)left)->address, b = ((const struct slot *)right)->address;

	return a < b ? -1 : a > b;
}

static int by_density(const void *left, const void *right)
{
	uint32_t a = ((const struct slot *)left)->on_page, b = ((const struct slot *)right)->on_page;

	return a > b ? -1 : a < b ? 1 : by_address(left, right);
}

static void sort_bin(void *const *list, size_t size)
{
	struct slot *slots = NULL;
	size_t count = 0, room = 0;

	while (*list) {
		if (count == room) {
			struct slot *grown = realloc(slots, (room = room ? 2 * room : 1024) * sizeof *slots);
			if (!grown) {
				break;
			}
			slots = grown;
		}
		slots[count++].address = (uintptr_t)emalloc(size);
	}
	if (count == 0) {
		return;
	}
	qsort(slots, count, sizeof *slots, by_address);
	for (size_t i = 0, end; i < count; i = end) {
		for (end = i + 1; end < count && page_of(&slots[end]) == page_of(&slots[i]); end++) {
		}
		for (size_t j = i; j < end; j++) {
			slots[j].on_page = (uint32_t)(end - i);
		}
	}
	qsort(slots, count, sizeof *slots, by_density);
	while (count > 0) {
		efree((void *)slots[--count].address);
	}
	free(slots);
}

bool reprise_collect_cycles(void)
{
	if (gc_enabled()) {
		gc_collect_cycles();
	}
	return !reprise_has_exception();
}

void reprise_compact(void)
{
	void *const *lists = reprise_free_lists();

	reprise_mark_destructed();
	for (size_t bin = 0; lists && bin < reprise_bin_count(); bin++) {
		sort_bin(&lists[bin], reprise_bin_size(bin));
	}
}
