/* Pages by what the kernel says of each. */
#define _GNU_SOURCE
#include <errno.h>

#include "../core/raw.h"
#include "pagemap.h"

/* Of 4 MiB of memory. */
#define ENTRIES 1024

/* Adds a page to the last range, or begins another. False: there is no room. */
static bool add(struct page_range *found, long *count, size_t room, uint64_t page, uint64_t kind)
{
	struct page_range *last = *count ? &found[*count - 1] : NULL;

	if (last && last->end == page && last->kind == kind) {
		last->end += PAGE;
		return true;
	}
	if ((size_t)*count == room) {
		return false;
	}
	found[(*count)++] = (struct page_range){page, page + PAGE, kind};
	return true;
}

long snapshot_find_pages(int pagemap, uint64_t *from, uint64_t end, struct page_range *found, size_t room,
                         page_kind kind)
{
	uint64_t entries[ENTRIES];
	long count = 0;

	while (*from < end) {
		uint64_t pages = (end - *from) / PAGE;
		size_t wanted = pages < ENTRIES ? pages : ENTRIES;
		long size = RAW4(SYS_pread64, pagemap, entries, wanted * sizeof *entries, *from / PAGE * sizeof *entries);
		if (size <= 0 || size % (long)sizeof *entries) {
			return size < 0 ? size : -EIO;
		}
		for (size_t i = 0; i < (size_t)size / sizeof *entries; i++, *from += PAGE) {
			uint64_t is = kind(entries[i]);
			if (is && !add(found, &count, room, *from, is)) {
				return count;
			}
		}
	}
	return count;
}
