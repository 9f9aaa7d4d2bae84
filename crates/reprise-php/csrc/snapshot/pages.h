/*
 * Single pages of the snapshot: where the image has a page, how it is copied back, how often it was found written.
 */
#ifndef REPRISE_PAGES_H
#define REPRISE_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "../core/checks.h"
#include "../core/snapshot_state.h"

/* What is known of a page: how often it was found written lately, or one of these. */
enum page_state {
	PAGE_HOLE = 251,   /* anonymous memory that was never written: the image has a hole for it */
	PAGE_FREE = 252,   /* of PHP's heap: nothing used it at the snapshot, and no request has written to it */
	PAGE_OPEN = 253,   /* the same, but a request has written to it: it is not protected any more */
	PAGE_HOT = 254,    /* always copied, not protected */
	PAGE_PINNED = 255, /* the same, for ever: it has bytes of an identity */
};

static inline const unsigned char *image_of(const struct region *region, uintptr_t page)
{
	CHECK(page >= region->start && page + PAGE <= region->end);
	CHECK(region->image + (page - region->start) + PAGE <= snapshot->image.size);
	return snapshot->image.bytes + region->image + (page - region->start);
}

/* The page's state (enum page_state), or how often it was found written. */
static inline uint8_t *hits_of(const struct region *region, uintptr_t page)
{
	size_t number = (region->image + (page - region->start)) / PAGE;

	CHECK(page >= region->start && number < snapshot->image.size / PAGE);
	return &snapshot->hot.hits[number];
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

/*
 * Puts a page back of which few lines differ, as of most hot pages. Whether a line differs is found out by reading
 * both, and only a line that differs is written. That takes 0.87 to 0.94 of the time of a copy, and the program that
 * runs next no more than after a copy. Hints to keep what is read out of the caches made it slower (AMD EPYC, 1 MiB of
 * second-level cache).
 */
#if defined(__x86_64__)
#define LINE 64

static inline bool can_compare_lines(void)
{
	return __builtin_cpu_supports("avx2");
}

__attribute__((target("avx2"))) static inline void put_back_lines(unsigned char *page, const unsigned char *image)
{
	for (size_t at = 0; at < PAGE; at += LINE) {
		__m256i *line = (__m256i *)(page + at);
		const __m256i *wanted = (const __m256i *)(image + at);
		__m256i first = _mm256_load_si256(wanted), second = _mm256_load_si256(wanted + 1);
		__m256i differs = _mm256_or_si256(_mm256_xor_si256(first, _mm256_load_si256(line)),
		                                  _mm256_xor_si256(second, _mm256_load_si256(line + 1)));
		if (!_mm256_testz_si256(differs, differs)) {
			_mm256_store_si256(line, first);
			_mm256_store_si256(line + 1, second);
		}
	}
	_mm256_zeroupper();
}
#else
static inline bool can_compare_lines(void)
{
	return false;
}

static inline void put_back_lines(unsigned char *page, const unsigned char *image)
{
	copy_page(page, image);
}
#endif

/* A write that changes nothing. The kernel may write to the same page at any time: it is one instruction. */
static inline void touch_page(unsigned char *page)
{
#if defined(__x86_64__)
	__asm__ volatile("lock orb $0, %0" : "+m"(*page));
#else
	__atomic_fetch_add(page, 0, __ATOMIC_RELAXED);
#endif
}

/* Pages are whole and aligned. With a check of each access an audit, which reads all memory, would take three times as
 * long. */
__attribute__((no_sanitize("undefined"))) static inline bool page_differs(const unsigned char *page,
                                                                          const unsigned char *image)
{
	const uint64_t *words = (const uint64_t *)page, *wanted = (const uint64_t *)image;
	uint64_t difference = 0;

	for (size_t i = 0; i < PAGE / sizeof *words; i++) {
		difference |= words[i] ^ wanted[i];
	}
	return difference != 0;
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

/* A page, or all pages of a range, without the bytes that each clone has for itself. */
void snapshot_copy_around_identity(unsigned char *page, const unsigned char *image);
void snapshot_copy_region(const struct region *region, uintptr_t from, uintptr_t to);

#endif
