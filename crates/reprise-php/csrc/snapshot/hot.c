/*
 * Pages that rewinds do not find by a scan, because they are not protected. This runs on the service stack.
 *
 * A page that is written twice within AGING rewinds becomes hot: a copy costs about 0.1 µs, and a fault with its scan a
 * thousand times that. Every rewind copies all hot pages. After SETTLED and then every RELEARN rewinds all hot pages
 * are forgotten. So pages that the warm-up or one unusual request has written are not copied for ever.
 *
 * A page of PHP's heap that was free at the snapshot (take.c) has no content that PHP relies on. It is protected until
 * a request writes to it, so that the page fault is counted and the scan finds the page that belongs to it. From then
 * on it is open: not protected, and not copied either. What a request leaves there lies in free memory of PHP's heap,
 * as under PHP-FPM. With the option `scrub` every rewind fills open pages with zeroes. A clone that has had no request
 * for a second gives its open pages back to the kernel.
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "../core/options.h"
#include "../core/checks.h"
#include "hot.h"
#include "maps.h"
#include "pages.h"
#include "../core/snapshot_state.h"
#include "ipc.h"
#include "ways.h"

#define HIT 64
#define HOT_AT 128
#define AGING 256
#define RELEARN 8192
/* Requests of the warm-up, each for another page of the application, are among the first. */
#define SETTLED 512

_Static_assert(HOT_AT < PAGE_HOLE, "a number of hits is no state");

void snapshot_pin(uintptr_t start, uintptr_t end)
{
	for (uintptr_t page = start & ~(PAGE - 1); page < end; page += PAGE) {
		const struct region *region = snapshot_region_of(page);
		if (region && region->start <= page) {
			*hits_of(region, page) = PAGE_PINNED;
			snapshot_way()->release(page, page + PAGE);
		}
	}
}

/* At most two pages are pinned: they have bytes that each clone has for itself. */
static void copy_pinned(void)
{
	for (size_t i = 0; i < IDENTITIES; i++) {
		uintptr_t last = 0;
		for (uintptr_t page = snapshot->image.identity[i].start & ~(PAGE - 1); page < snapshot->image.identity[i].end;
		     page += PAGE) {
			const struct region *region = snapshot_region_of(page);
			if (region && region->start <= page && page != last) {
				snapshot_copy_around_identity((unsigned char *)page, image_of(region, page));
				snapshot->hot.put_back++;
			}
			last = page;
		}
	}
}

void snapshot_copy_hot(void)
{
	size_t first = IS_PLANTED(PLANTED_INDEX_PAST_HOT) ? MAX_HOT : 0;

	copy_pinned();
	for (size_t i = first; i < first + snapshot->hot.count; i++) {
		struct hot_page hot = snapshot->hot.pages[i];
		if (!hot.image) {
			zero_page(hot.page);
		} else if (snapshot->hot.compares_lines) {
			put_back_lines(hot.page, hot.image);
		} else {
			copy_page(hot.page, hot.image);
		}
	}
	snapshot->hot.put_back += snapshot->hot.count;
}

static bool make_hot(uintptr_t page, const unsigned char *image)
{
	if (snapshot->hot.count == MAX_HOT) {
		return false;
	}
	snapshot->hot.pages[snapshot->hot.count++] = (struct hot_page){(unsigned char *)page, image};
	return true;
}

/* The first write to a page that was free at the snapshot. */
static bool open_free_page(uint8_t *state, uintptr_t page)
{
	if (reprise_options.scrubs) {
		zero_page((unsigned char *)page);
		snapshot->hot.put_back++;
		if (!make_hot(page, NULL)) {
			return false;
		}
	}
	snapshot->hot.open_count++;
	*state = PAGE_OPEN;
	return true;
}

bool snapshot_put_back(const struct region *region, uintptr_t page)
{
	uint8_t *state = hits_of(region, page);

	if (*state >= PAGE_OPEN) {
		return true;
	}
	snapshot->hot.found++;
	if (*state == PAGE_FREE) {
		return open_free_page(state, page);
	}
	if (*state == PAGE_HOLE) {
		*state = 0;
	}
	copy_page((unsigned char *)page, image_of(region, page));
	snapshot->hot.put_back++;
	*state = (uint8_t)(*state + HIT > HOT_AT ? HOT_AT : *state + HIT);
	if (*state < HOT_AT || !make_hot(page, image_of(region, page))) {
		return false;
	}
	*state = PAGE_HOT;
	return true;
}

/* Free, open, hot and pinned pages are nobody's content, or were copied before. */
void snapshot_put_back_if_changed(const struct region *region, uintptr_t page, bool is_there)
{
	uint8_t state = *hits_of(region, page);

	if (state < PAGE_FREE && (is_there || state != PAGE_HOLE)
	    && page_differs((const unsigned char *)page, image_of(region, page))) {
		snapshot_copy_region(region, page, page + PAGE);
		snapshot->hot.put_back++;
		snapshot_watch_or_recycle(page, page + PAGE);
	}
}

bool snapshot_is_watched(const struct region *region, uintptr_t start, uintptr_t end)
{
	for (uintptr_t page = start; page < end; page += PAGE) {
		if (*hits_of(region, page) < PAGE_OPEN) {
			return true;
		}
	}
	return false;
}

/* Where the open pages of a region end that begin at `from`. */
static uintptr_t open_until(const struct region *region, uintptr_t from)
{
	while (from < region->end && *hits_of(region, from) == PAGE_OPEN) {
		from += PAGE;
	}
	return from;
}

/* Dropped first, then protected: a page that is not there counts as written until it is protected. */
static void give_back(const struct region *region, uintptr_t start, uintptr_t end)
{
	if (RAW3(SYS_madvise, start, end - start, MADV_DONTNEED) < 0) {
		return;
	}
	snapshot_watch_or_recycle(start, end);
	for (uintptr_t page = start; page < end; page += PAGE) {
		*hits_of(region, page) = PAGE_FREE;
	}
}

void snapshot_close_free(void)
{
	size_t kept = 0;

	for (size_t i = 0; i < snapshot->image.region_count; i++) {
		const struct region *region = &snapshot->image.regions[i];
		for (uintptr_t page = region->start; page < region->end; page += PAGE) {
			uintptr_t end = open_until(region, page);
			if (end > page) {
				give_back(region, page, end);
				page = end - PAGE;
			}
		}
	}
	for (size_t i = 0; i < snapshot->hot.count; i++) {
		struct hot_page hot = snapshot->hot.pages[i];
		if (hot.image || *hits_of(snapshot_region_of((uintptr_t)hot.page), (uintptr_t)hot.page) == PAGE_OPEN) {
			snapshot->hot.pages[kept++] = hot;
		}
	}
	snapshot->hot.count = kept;
	snapshot->hot.open_count = 0;
	snapshot_watch_goes_on();
}

static void forget_hot(void)
{
	for (size_t i = 0; i < snapshot->hot.count; i++) {
		uintptr_t page = (uintptr_t)snapshot->hot.pages[i].page;
		const struct region *region = snapshot_region_of(page);
		*hits_of(region, page) = snapshot->hot.pages[i].image ? 0 : PAGE_FREE;
		snapshot->hot.open_count -= snapshot->hot.pages[i].image ? 0 : 1;
		snapshot_watch_or_recycle(page, page + PAGE);
	}
	snapshot->hot.count = 0;
}

void snapshot_forget_hot_page(uintptr_t page, uint8_t state)
{
	size_t kept = 0;

	for (size_t i = 0; i < snapshot->hot.count; i++) {
		if (snapshot->hot.pages[i].page != (unsigned char *)page) {
			snapshot->hot.pages[kept++] = snapshot->hot.pages[i];
		}
	}
	snapshot->hot.count = kept;
	snapshot->hot.open_count -= state == PAGE_OPEN;
}

void snapshot_touch_unwatched(void)
{
	for (size_t i = 0; i < snapshot->image.region_count; i++) {
		const struct region *region = &snapshot->image.regions[i];
		for (uintptr_t page = region->start; page < region->end; page += PAGE) {
			if (*hits_of(region, page) >= PAGE_OPEN) {
				touch_page((unsigned char *)page);
			}
		}
	}
}

void snapshot_age(void)
{
	size_t count = snapshot->image.size / PAGE;

	if (snapshot->watch.rewinds % AGING != 0) {
		return;
	}
	if (snapshot->watch.rewinds % RELEARN == 0 || snapshot->watch.rewinds == SETTLED) {
		forget_hot();
	}
	for (size_t i = 0; i < count; i++) {
		if (snapshot->hot.hits[i] <= HOT_AT) {
			snapshot->hot.hits[i] /= 2;
		}
	}
}
