/*
 * PAGEMAP_SCAN (Linux 6.7), by a descriptor of /proc/self/pagemap. The headers of Debian 12 do not have it, so the
 * values are those of the kernel's include/uapi/linux/fs.h.
 */
#ifndef REPRISE_SCAN_H
#define REPRISE_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>

#include "../core/raw.h"

struct page_range {
	uint64_t start, end, categories;
};

struct scan_arguments {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};

#define SCAN_PAGES _IOWR('f', 16, struct scan_arguments)
#define SCAN_CHECK_WPASYNC (1 << 1)
#define SCAN_WPALLOWED (1 << 0)
#define SCAN_WRITTEN (1 << 1)
#define SCAN_PRESENT (1 << 3)
#define SCAN_SWAPPED (1 << 4)

#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_ASYNC (1 << 15)
#define UFFD_FEATURE_WP_UNPOPULATED (1 << 13)
#endif

/* Finds ranges of written pages from *from on, and sets *from to the end of the walk. With `strict` it fails if a page
 * is not watched. Returns the number of ranges, or a negative errno. */
static inline long scan_written(int pagemap, uint64_t *from, uint64_t end, struct page_range *ranges, size_t room,
                                bool strict)
{
	struct scan_arguments arguments = {
	    .size = sizeof arguments,
	    .flags = strict ? SCAN_CHECK_WPASYNC : 0,
	    .start = *from,
	    .end = end,
	    .vec = (uint64_t)(uintptr_t)ranges,
	    .vec_len = room,
	    /* WRITTEN alone is faster, and lists pages that are not watched. */
	    .category_mask = strict ? SCAN_WRITTEN : SCAN_WRITTEN | SCAN_WPALLOWED,
	    .return_mask = SCAN_WRITTEN,
	};
	long count = RAW3(SYS_ioctl, pagemap, SCAN_PAGES, &arguments);

	*from = count < 0 ? end : arguments.walk_end;
	return count;
}

/* The same for pages that exist, in memory or swapped out. */
static inline long scan_present(int pagemap, uint64_t *from, uint64_t end, struct page_range *ranges, size_t room)
{
	struct scan_arguments arguments = {
	    .size = sizeof arguments,
	    .start = *from,
	    .end = end,
	    .vec = (uint64_t)(uintptr_t)ranges,
	    .vec_len = room,
	    .category_anyof_mask = SCAN_PRESENT | SCAN_SWAPPED,
	    .return_mask = SCAN_PRESENT,
	};
	long count = RAW3(SYS_ioctl, pagemap, SCAN_PAGES, &arguments);

	*from = count < 0 ? end : arguments.walk_end;
	return count;
}

/* Scans a page that there is; a negative errno if the kernel has no PAGEMAP_SCAN. */
static inline long scan_something(int pagemap)
{
	struct page_range range;
	uint64_t from = (uint64_t)(uintptr_t)&range & ~(uint64_t)(PAGE - 1);

	return scan_present(pagemap, &from, from + PAGE, &range, 1);
}

#endif
