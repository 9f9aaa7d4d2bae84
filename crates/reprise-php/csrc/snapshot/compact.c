/*
 * Before the snapshot: PHP's heap in an order in which a request writes to few pages. On PHP's stack.
 *
 * Each page that most requests write to is copied after each of them, so it pays to have few of them.
 *
 * - Cycles are collected. Otherwise a boot that ends shortly before PHP would do it has every request do it.
 * - Objects without a destructor are marked as destructed. Otherwise PHP marks each of them when a request ends, and
 *   writes to every page that has an object. Nobody sees the mark: it keeps a destructor from being called, and there
 * is none.
 * - The boot leaves free slots strewn over all of its memory, and ZendMM hands them out in the order in which they
 *   became free. They are sorted, for each size: those on pages with the most of them come first.
 *
 * Symfony's /hello then writes to 144 pages instead of 245.
 */
#define _GNU_SOURCE
#include <php.h>
#include <zend_alloc_sizes.h>

#include <stdlib.h>
#include <string.h>

#include "snapshot.h"

#define SIZE_OF_BIN(number, size, elements, pages, x, y) size,

static const uint16_t bin_sizes[] = {ZEND_MM_BINS_INFO(SIZE_OF_BIN, x, y)};
#define BINS (sizeof bin_sizes / sizeof *bin_sizes)

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

/*
 * The heads of ZendMM's free lists, one for each size. They are private, but known by what they do: a slot that was
 * just freed is the head of its size's list. NULL if they are not found, as with USE_ZEND_ALLOC=0.
 */
static void *const *find_free_lists(void)
{
	void *const *words = (void *const *)zend_mm_get_heap();

	if (!is_zend_mm()) {
		return NULL;
	}
	for (size_t at = 0; at < 16; at++) {
		bool all = true;
		for (size_t bin = 0; bin < BINS && all; bin++) {
			void *slot = emalloc(bin_sizes[bin]);
			efree(slot);
			all = words[at + bin] == slot;
		}
		if (all) {
			return words + at;
		}
	}
	return NULL;
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

static void mark_destructed(void)
{
	const zend_objects_store *store = &EG(objects_store);

	for (uint32_t i = 1; i < store->top; i++) {
		zend_object *object = store->object_buckets[i];
		if (IS_OBJ_VALID(object) && object->handlers->dtor_obj == zend_objects_destroy_object
		    && !object->ce->destructor) {
			GC_ADD_FLAGS(object, IS_OBJ_DESTRUCTOR_CALLED);
		}
	}
}

bool reprise_collect_cycles(void)
{
	if (gc_enabled()) {
		gc_collect_cycles();
	}
	return !EG(exception);
}

void reprise_compact(void)
{
	void *const *lists = find_free_lists();

	mark_destructed();
	for (size_t bin = 0; lists && bin < BINS; bin++) {
		sort_bin(&lists[bin], bin_sizes[bin]);
	}
}
