/*
 * The heads of ZendMM's free lists, one for each size. PHP's headers do not tell where they are. They are found by what
 * ZendMM does: a slot that was just freed is the head of the list of its size.
 */
#include <php.h>
#include <zend_alloc_sizes.h>

#include "free_lists.h"

/* The lists are searched for among so many words at the beginning of the heap. */
#define SEARCHED_WORDS 16

#define SIZE_OF_BIN(number, size, elements, pages, x, y) size,

static const uint16_t bin_sizes[] = {ZEND_MM_BINS_INFO(SIZE_OF_BIN, x, y)};
#define BINS (sizeof bin_sizes / sizeof *bin_sizes)

/* The smallest slot that ZendMM uses. From 8.4 on a free slot holds a pointer and its copy: the list of slots of 8
 * bytes stays empty. zend_alloc.c alone names it, so engine_free_lists() checks it. */
#if PHP_VERSION_ID >= 80400
#define SMALLEST 16
#else
#define SMALLEST 8
#endif

_Static_assert(BINS == 30, "ZendMM has as many lists as this was written for");

size_t engine_bin_count(void)
{
	return BINS;
}

size_t engine_bin_size(size_t bin)
{
	return bin_sizes[bin];
}

void *const *engine_free_lists(void)
{
	static void *const *found;
	void *const *words = (void *const *)zend_mm_get_heap();

	if (found || !is_zend_mm()) {
		return found;
	}
	for (size_t at = 0; at < SEARCHED_WORDS; at++) {
		bool all = true;
		for (size_t bin = 0; bin < BINS && all; bin++) {
			void *slot = NULL;
			if (bin_sizes[bin] >= SMALLEST) {
				slot = emalloc(bin_sizes[bin]);
				efree(slot);
			}
			all = words[at + bin] == slot;
		}
		if (all) {
			return found = words + at;
		}
	}
	return NULL;
}
