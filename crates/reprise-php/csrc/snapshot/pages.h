/*
 * Single pages of the snapshot: where the image has a page, how it is copied back, how often it was found written.
 */
#ifndef REPRISE_PAGES_H
#define REPRISE_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "checks.h"
#include "snapshot.h"

/* What is known of a page: how often it was found written lately, or one of these. */
enum page_state {
	PAGE_FREE = 252,   /* of PHP's heap: nothing used it at the snapshot, and no request has written to it */
	PAGE_OPEN = 253,   /* the same, but a request has written to it: it is not protected any more */
	PAGE_HOT = 254,    /* always copied, not protected */
	PAGE_PINNED = 255, /* the same, for ever: it has bytes of an identity */
};

static inline const unsigned char *image_of(const struct region *region, uintptr_t page)
{
	CHECK(page >= region->start && page + PAGE <= region->end);
	CHECK(region->image + (page - region->start) + PAGE <= snapshot->image_size);
	return snapshot->image + region->image + (page - region->start);
}

/* The page's state (enum page_state), or how often it was found written. */
static inline uint8_t *hits_of(const struct region *region, uintptr_t page)
{
	size_t number = (region->image + (page - region->start)) / PAGE;

	CHECK(page >= region->start && number < snapshot->image_size / PAGE);
	return &snapshot->hits[number];
}

/* Vector instructions are no faster here: the copy waits for the second-level cache. */
static inline void copy_page(unsigned char *page, const unsigned char *image)
{
#if defined(__x86_64__)
	size_t words = PAGE / 8;
	__asm__ volatile("rep movsq" : "+D"(page), "+S"(image), "+c"(words) : : "memory");
#else
	__builtin_memcpy(page, image, PAGE);
#endif
}

static inline void zero_page(unsigned char *page)
{
#if defined(__x86_64__)
	size_t words = PAGE / 8;
	__asm__ volatile("rep stosq" : "+D"(page), "+c"(words) : "a"(0) : "memory");
#else
	for (size_t i = 0; i < PAGE; i++) {
		((volatile unsigned char *)page)[i] = 0;
	}
#endif
}

#endif
