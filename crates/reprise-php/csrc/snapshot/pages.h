/*
 * Single pages of the snapshot: where the image has them, how they are copied back, how often each was found written.
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

/* How often that page was found written. */
static inline uint8_t *hits_of(const struct region *region, uintptr_t page)
{
	size_t number = (region->image + (page - region->start)) / PAGE;

	CHECK(page >= region->start && number < snapshot->image_size / PAGE);
	return &snapshot->hits[number];
}

/* Vector loads and stores were tried: no quicker, since the second-level cache is what it waits for. */
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
