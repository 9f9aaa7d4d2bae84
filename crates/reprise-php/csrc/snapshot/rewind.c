/*
 * The rewind: it puts memory back to the image. This runs on the service stack.
 *
 * Pages that many requests write are hot. They are not watched, and every rewind copies them. All others are
 * watched (ways.h): the first write to a page is a page fault, which the kernel resolves and counts. If the counters
 * have not changed, and no call has changed memory without a fault (dirty*.c), only hot pages can differ, and copying
 * them is the whole rewind. Otherwise the written pages are searched.
 * ARCHITECTURE.md lists the cases.
 * hot.c says which pages are hot, and which need no copy.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>

#include "../core/options.h"
#include "../core/raw.h"
#include "../core/checks.h"
#include "hot.h"
#include "kernel.h"
#include "maps.h"
#include "pages.h"
#include "prove.h"
#include "rewind.h"
#include "../core/snapshot_state.h"
#include "ipc.h"
#include "../core/recycle.h"
#include "ways.h"
#include "../core/worker_state.h"

/* A region of so many bytes gets a scan of its own. */
#define LARGE (1024 * 1024)
/* One call scans regions with no larger gap between them. The kernel passes over the gap quickly. */
#define SCAN_GAP (UINT64_C(1) << 36)

/* Written pages of one region. Those that are not protected were put back before. */
static void restore_range(const struct region *region, uintptr_t start, uintptr_t end)
{
	uintptr_t protect_from = start;

	for (uintptr_t page = start; page < end; page += PAGE) {
		if (snapshot_put_back(region, page)) {
			snapshot_watch_or_recycle(protect_from, page);
			protect_from = page + PAGE;
		}
	}
	snapshot_watch_or_recycle(protect_from, end);
}

static void restore_unmarked(const struct region *region, uintptr_t start, uintptr_t end, bool is_there)
{
	for (uintptr_t page = start; page < end; page += PAGE) {
		snapshot_put_back_if_changed(region, page, is_there);
	}
}

/* `region` is the first that the range can touch. Returns the first that the next range can touch. */
static const struct region *restore_found(const struct page_range *found, const struct region *region)
{
	const struct region *last = &snapshot->image.regions[snapshot->image.region_count];

	for (; region < last && region->start < found->end; region++) {
		uintptr_t start = region->start > found->start ? region->start : found->start;
		uintptr_t end = region->end < found->end ? region->end : found->end;
		if (start < end && (found->kind & FOUND_UNMARKED)) {
			restore_unmarked(region, start, end, found->kind & FOUND_PRESENT);
		} else if (start < end) {
			restore_range(region, start, end);
		}
		if (region->end > found->end) {
			break;
		}
	}
	return region;
}

/* Another mapping has replaced the region, so the kernel does not watch it. It is registered and copied as a whole. */
static void watch_again(uintptr_t start, uintptr_t end)
{
	const struct region *region = snapshot_region_of(start);

	if (!region || region->start != start || region->end != end || !snapshot_way()->adopt(start, end)) {
		reprise_recycle(ipc_Recycle_Protection, "memory of the snapshot is not watched any more");
	}
	snapshot_copy_region(region, start, end);
	snapshot_watch_or_recycle(start, end);
	for (size_t i = 0; i < IDENTITIES; i++) {
		snapshot_pin(snapshot->image.identity[i].start, snapshot->image.identity[i].end);
	}
	snapshot->hot.put_back += (end - start) / PAGE;
	snapshot->notes.dirty |= DIRTY_MAPPINGS;
}

static void scan_range(const struct region *first, const struct region *last, bool strict)
{
	struct page_range found[512];
	const struct region *region = first;
	uint64_t from = first->start, end = last->end;

	while (from < end) {
		long count = snapshot_way()->find(&from, end, found, sizeof found / sizeof *found, strict);
		if (count < 0) {
			watch_again(first->start, end);
			return;
		}
		for (long i = 0; i < count; i++) {
			region = restore_found(&found[i], region);
		}
	}
}

static bool is_large(const struct region *region)
{
	return region->end - region->start >= LARGE;
}

/* Every region by itself: mappings may have been replaced, or memory dropped. */
static void scan_each(bool is_strict)
{
	for (size_t i = 0; i < snapshot->image.region_count; i++) {
		scan_range(&snapshot->image.regions[i], &snapshot->image.regions[i], is_strict);
	}
}

/* Large regions, each by itself. These are the few heaps, to which requests write most. */
static void scan_large(void)
{
	for (size_t i = 0; i < snapshot->image.region_count; i++) {
		if (is_large(&snapshot->image.regions[i])) {
			scan_range(&snapshot->image.regions[i], &snapshot->image.regions[i], true);
		}
	}
}

/* Small regions, most of them a few pages of a library. One call scans all between two large ones. */
static void scan_small(void)
{
	for (size_t i = 0; i < snapshot->image.region_count;) {
		size_t last = i;
		if (is_large(&snapshot->image.regions[i])) {
			i++;
			continue;
		}
		while (last + 1 < snapshot->image.region_count && !is_large(&snapshot->image.regions[last + 1])
		       && snapshot->image.regions[last + 1].start - snapshot->image.regions[last].end < SCAN_GAP) {
			last++;
		}
		scan_range(&snapshot->image.regions[i], &snapshot->image.regions[last], false);
		i = last + 1;
	}
}

/*
 * Finds written pages and puts them back, after faults were counted or a call was noted. The first write to a protected
 * page is a fault. If only such writes can have changed memory, and the heaps have as many pages that were protected
 * and written as there were faults, then no other page was written, and no other region has to be scanned.
 */
static void scan(void)
{
	bool is_strict = snapshot->notes.dirty & (DIRTY_MEMORY | DIRTY_MAPPINGS);

	if (is_strict || !snapshot_way()->spans) {
		scan_each(is_strict);
		return;
	}
	scan_large();
	if (snapshot->hot.found != snapshot->watch.counted || (snapshot->notes.dirty & DIRTY_MAPPINGS)) {
		scan_small();
	}
}

/* By the raw call. libc's own idea of the break is in memory that the rewind puts back, and calloc relies on zeroes
 * above it. */
static void restore_break(void)
{
	uintptr_t now = (uintptr_t)RAW1(SYS_brk, 0);

	if (now < snapshot->image.brk) {
		snapshot->notes.dirty |= DIRTY_MAPPINGS;
	}
	if (now != snapshot->image.brk && (uintptr_t)RAW1(SYS_brk, snapshot->image.brk) != snapshot->image.brk) {
		reprise_recycle(ipc_Recycle_Mappings, "the program break cannot be restored");
	}
}

static void undo_new_mappings(void)
{
	for (size_t i = 0; i < snapshot->notes.fresh_count; i++) {
		RAW2(SYS_munmap, snapshot->notes.fresh[i].start, snapshot->notes.fresh[i].end - snapshot->notes.fresh[i].start);
	}
	snapshot->notes.fresh_count = 0;
}

void snapshot_rewind(void)
{
	snapshot->hot.found = snapshot->hot.put_back = 0;
	ipc_show(&reprise_worker->ipc, ipc_Activity_Rewinding);
	/* It reaps children, and the counters include their faults only then. */
	snapshot_prove_alone();
	restore_break();
	undo_new_mappings();
	snapshot_prove_mappings();
	struct faults now = snapshot_faults();
	if (IS_PLANTED(PLANTED_OVERFLOW)) {
		snapshot->watch.faults.self = LONG_MIN;
	}
	bool is_fast = now.self == snapshot->watch.faults.self && now.children == snapshot->watch.faults.children
	               && !(snapshot->notes.dirty & (DIRTY_MEMORY | DIRTY_MAPPINGS));
	snapshot_copy_hot();
	if (!is_fast) {
		snapshot->watch.counted =
		    (uint64_t)(now.self - snapshot->watch.faults.self + now.children - snapshot->watch.faults.children);
		scan();
		snapshot_prove_watched(true);
	}
	snapshot_kernel_restore();
	snapshot->watch.rewinds++;
	snapshot_age();
	snapshot_plant_in_rewind();
	if (reprise_options.audits) {
		snapshot_audit(is_fast);
	}
	ipc_rewound(&reprise_worker->ipc, is_fast, snapshot->hot.put_back);
	snapshot->notes.dirty = 0;
	/* This comes last: a write from here on counts as one of the next request. A fast rewind leaves the count that it
	 * has read: if it has faulted itself, the next one scans. */
	if (snapshot_way()->end() || !is_fast) {
		snapshot->watch.faults = snapshot_faults();
	}
}
