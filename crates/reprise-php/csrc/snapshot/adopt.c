/*
 * Pages that hooks have written become a part of this clone's image. The image is a private mapping of a sealed file
 * that all clones share: the first write to one of its pages makes a copy of that page for this clone alone. It is
 * writable only while pages are copied. On the service stack.
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "../core/raw.h"
#include "hot.h"
#include "maps.h"
#include "pages.h"
#include "../core/snapshot_state.h"
#include "../core/recycle.h"
#include "ways.h"
#include "adopt.h"

static bool make_image(int protection)
{
	const struct range *image = &snapshot->image.own[OWN_IMAGE];

	return RAW3(SYS_mprotect, image->start, image->end - image->start, protection) >= 0;
}

typedef void (*page_visitor)(const struct region *region, uintptr_t start, uintptr_t end, void *context);

/* All pages that were written since they were protected. */
static bool each_written(page_visitor visit, void *context)
{
	struct page_range found[256];

	for (size_t i = 0; i < snapshot->image.region_count; i++) {
		const struct region *region = &snapshot->image.regions[i];
		uint64_t from = region->start;
		while (from < region->end) {
			long count = snapshot_way()->find(&from, region->end, found, sizeof found / sizeof *found, true);
			if (count < 0) {
				return false;
			}
			for (long j = 0; j < count; j++) {
				if (found[j].kind & FOUND_UNMARKED) {
					continue;
				}
				visit(region, found[j].start, found[j].end, context);
			}
		}
	}
	return true;
}

static void count_pages(const struct region *region, uintptr_t start, uintptr_t end, void *context)
{
	size_t *count = context;

	(void)region;
	*count += (end - start) / PAGE;
}

static void adopt_range(const struct region *region, uintptr_t start, uintptr_t end, void *context)
{
	struct connections *all = &snapshot->connections;

	(void)context;
	for (uintptr_t page = start; page < end && all->adopted_count < MOST_ADOPTED; page += PAGE) {
		uint8_t *state = hits_of(region, page);
		copy_page((unsigned char *)image_of(region, page), (const unsigned char *)page);
		all->adopted[all->adopted_count++] = (uint32_t)((region->image + (page - region->start)) / PAGE);
		if (*state == PAGE_PINNED) {
			continue;
		}
		/* A page that was free has content from here on. */
		if (*state >= PAGE_FREE) {
			snapshot_forget_hot_page(page, *state);
		}
		*state = 0;
		snapshot_watch_or_recycle(page, page + PAGE);
	}
}

const char *snapshot_adopt_pages(void)
{
	size_t count = 0;

	if (!each_written(count_pages, &count)) {
		return "a hook has replaced memory of the snapshot";
	}
	if (count > MOST_ADOPTED - snapshot->connections.adopted_count) {
		return "hooks have written to more than 16 MiB";
	}
	if (!make_image(PROT_READ | PROT_WRITE)) {
		return "there is no memory for an image of its own";
	}
	each_written(adopt_range, NULL);
	if (!make_image(PROT_READ)) {
		reprise_recycle(ipc_Recycle_Kernel, "the image cannot be protected");
	}
	return NULL;
}

static const struct region *region_of_image(size_t at)
{
	for (size_t i = 0; i < snapshot->image.region_count; i++) {
		const struct region *region = &snapshot->image.regions[i];
		if (at >= region->image && at - region->image < region->end - region->start) {
			return region;
		}
	}
	return NULL;
}

/* The kernel forgets the copies, so the image is the template's again. Memory is put back to it. */
void snapshot_disown_pages(void)
{
	struct connections *all = &snapshot->connections;
	const struct range *image = &snapshot->image.own[OWN_IMAGE];

	RAW3(SYS_madvise, image->start, image->end - image->start, MADV_DONTNEED);
	for (size_t i = 0; i < all->adopted_count; i++) {
		size_t at = (size_t)all->adopted[i] * PAGE;
		const struct region *region = region_of_image(at);
		CHECK(region);
		uintptr_t page = region->start + (at - region->image);
		snapshot_copy_region(region, page, page + PAGE);
		if (*hits_of(region, page) < PAGE_FREE) {
			snapshot_watch_or_recycle(page, page + PAGE);
		}
	}
	all->adopted_count = 0;
}
