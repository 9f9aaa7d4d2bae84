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

static inline const unsigned char *image_of(const struct region *region, uintptr_t page)
{
	CHECK(page >= region->start && page + PAGE <= region->end);
	CHECK(region->image + (page - region->start) + PAGE <= snapshot->image_size);
	return snapshot->image + region->image + (page - region->start);
}

/* How often a page was found written. */
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

#endif
