/*
 * The rewind: it puts memory back to the image. This runs on the service stack.
 *
 * Pages that many requests write are hot. They are not protected, and every rewind copies them. All others are
 * write-protected by an asynchronous userfaultfd: the first write to a page is a page fault, which the kernel resolves
 * and counts. If the counters have not changed, and no call has changed memory without a fault (dirty*.c), only hot
 * pages can differ, and copying them is the whole rewind. Otherwise PAGEMAP_SCAN lists the written pages.
 * ARCHITECTURE.md lists the cases.
 * hot.c says which pages are hot, and which need no copy.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "../options.h"
#include "../raw.h"
#include "../worker.h"
#include "checks.h"
#include "clone.h"
#include "hot.h"
#include "kernel.h"
#include "maps.h"
#include "pages.h"
#include "prove.h"
#include "rewind.h"
#include "scan.h"
#include "snapshot.h"
#include "wire.h"

/* A region of so many bytes gets a scan of its own. */
#define LARGE (1024 * 1024)
/* One call scans regions with no larger gap between them. The kernel passes over the gap quickly. */
#define SCAN_GAP (UINT64_C(1) << 36)

struct faults reprise_faults(void)
{
	struct rusage self = {0}, children = {0};

	/* RUSAGE_SELF counts all threads, ended ones included. */
	RAW2(SYS_getrusage, RUSAGE_SELF, &self);
	RAW2(SYS_getrusage, RUSAGE_CHILDREN, &children);
	return (struct faults){self.ru_minflt + self.ru_majflt, children.ru_minflt + children.ru_majflt};
}

static bool write_protect(uintptr_t start, uintptr_t end, uint64_t mode)
{
	struct uffdio_writeprotect range = {.range = {start, end - start}, .mode = mode};

	return RAW3(SYS_ioctl, snapshot->uffd, UFFDIO_WRITEPROTECT, &range) >= 0;
}

bool reprise_protect(uintptr_t start, uintptr_t end)
{
	return write_protect(start, end, UFFDIO_WRITEPROTECT_MODE_WP);
}

bool reprise_register(uintptr_t start, uintptr_t end)
{
	struct uffdio_register range = {.range = {start, end - start}, .mode = UFFDIO_REGISTER_MODE_WP};

	return RAW3(SYS_ioctl, snapshot->uffd, UFFDIO_REGISTER, &range) >= 0;
}

bool reprise_unprotect(uintptr_t start, uintptr_t end)
{
	return write_protect(start, end, 0);
}

void reprise_protect_or_recycle(uintptr_t start, uintptr_t end)
{
	if (start < end && !reprise_protect(start, end)) {
		reprise_recycle(wire_Recycle_Protection, "pages cannot be protected any more");
	}
}

/* Written pages of one region. Those that are not protected were put back before. */
static void restore_range(const struct region *region, uintptr_t start, uintptr_t end)
{
	uintptr_t protect_from = start;

	for (uintptr_t page = start; page < end; page += PAGE) {
		if (reprise_put_back(region, page)) {
			reprise_protect_or_recycle(protect_from, page);
			protect_from = page + PAGE;
		}
	}
	reprise_protect_or_recycle(protect_from, end);
}

/* `region` is the first that the range can touch. Returns the first that the next range can touch. */
static const struct region *restore_found(const struct page_range *found, const struct region *region)
{
	const struct region *last = &snapshot->regions[snapshot->region_count];

	for (; region < last && region->start < found->end; region++) {
		uintptr_t start = region->start > found->start ? region->start : found->start;
		uintptr_t end = region->end < found->end ? region->end : found->end;
		if (start < end) {
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
	const struct region *region = reprise_region_of(start);

	if (!region || region->start != start || region->end != end || !reprise_register(start, end)) {
		reprise_recycle(wire_Recycle_Protection, "memory of the snapshot is not watched any more");
	}
	reprise_copy_region(region, start, end);
	reprise_protect_or_recycle(start, end);
	for (size_t i = 0; i < IDENTITIES; i++) {
		reprise_pin(snapshot->identity[i].start, snapshot->identity[i].end);
	}
	snapshot->put_back += (end - start) / PAGE;
	snapshot->dirty |= DIRTY_MAPPINGS;
}

static void scan_range(const struct region *first, const struct region *last, bool strict)
{
	struct page_range found[512];
	const struct region *region = first;
	uint64_t from = first->start, end = last->end;

	while (from < end) {
		long count = scan_written(snapshot->pagemap, &from, end, found, sizeof found / sizeof *found, strict);
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
static void scan_each(void)
{
	for (size_t i = 0; i < snapshot->region_count; i++) {
		scan_range(&snapshot->regions[i], &snapshot->regions[i], true);
	}
}

/* Large regions, each by itself. These are the few heaps, to which requests write most. */
static void scan_large(void)
{
	for (size_t i = 0; i < snapshot->region_count; i++) {
		if (is_large(&snapshot->regions[i])) {
			scan_range(&snapshot->regions[i], &snapshot->regions[i], true);
		}
	}
}

/* Small regions, most of them a few pages of a library. One call scans all between two large ones. */
static void scan_small(void)
{
	for (size_t i = 0; i < snapshot->region_count;) {
		size_t last = i;
		if (is_large(&snapshot->regions[i])) {
			i++;
			continue;
		}
		while (last + 1 < snapshot->region_count && !is_large(&snapshot->regions[last + 1])
		       && snapshot->regions[last + 1].start - snapshot->regions[last].end < SCAN_GAP) {
			last++;
		}
		scan_range(&snapshot->regions[i], &snapshot->regions[last], false);
		i = last + 1;
	}
}

/*
 * Finds written pages and puts them back, after faults were counted or a call was noted. The first write to a protected
 * page is a fault. If only such writes can have changed memory, and the heaps have as many pages that were protected
 * and written as there were faults, then no other page was written, and no other region has to be scanned.
 */
static void scan(uint64_t faults)
{
	if (snapshot->dirty & (DIRTY_MEMORY | DIRTY_MAPPINGS)) {
		scan_each();
		return;
	}
	scan_large();
	if (snapshot->found != faults || (snapshot->dirty & DIRTY_MAPPINGS)) {
		scan_small();
	}
}

/* MADV_GUARD_REMOVE (Linux 6.13). It changes no page that is not a guard. */
void reprise_remove_guards(void)
{
	for (size_t i = 0; i < snapshot->region_count; i++) {
		const struct region *region = &snapshot->regions[i];
		RAW3(SYS_madvise, region->start, region->end - region->start, 103);
	}
}

/* By the raw call. libc's own idea of the break is in memory that the rewind puts back, and calloc relies on zeroes
 * above it. */
static void restore_break(void)
{
	uintptr_t now = (uintptr_t)RAW1(SYS_brk, 0);

	if (now < snapshot->brk) {
		snapshot->dirty |= DIRTY_MAPPINGS;
	}
	if (now != snapshot->brk && (uintptr_t)RAW1(SYS_brk, snapshot->brk) != snapshot->brk) {
		reprise_recycle(wire_Recycle_Mappings, "the program break cannot be restored");
	}
}

static void undo_new_mappings(void)
{
	for (size_t i = 0; i < snapshot->fresh_count; i++) {
		RAW2(SYS_munmap, snapshot->fresh[i].start, snapshot->fresh[i].end - snapshot->fresh[i].start);
	}
	snapshot->fresh_count = 0;
}

void reprise_rewind(void)
{
	snapshot->found = snapshot->put_back = 0;
	wire_show(&reprise_worker->wire, wire_Activity_Rewinding);
	/* It reaps children, and the counters include their faults only then. */
	reprise_prove_alone();
	restore_break();
	undo_new_mappings();
	reprise_prove_mappings();
	struct faults now = reprise_faults();
	if (IS_PLANTED(PLANTED_OVERFLOW)) {
		snapshot->faults.self = LONG_MIN;
	}
	bool is_fast = now.self == snapshot->faults.self && now.children == snapshot->faults.children
	               && !(snapshot->dirty & (DIRTY_MEMORY | DIRTY_MAPPINGS));
	reprise_copy_hot();
	if (!is_fast) {
		scan((uint64_t)(now.self - snapshot->faults.self + now.children - snapshot->faults.children));
	}
	reprise_kernel_restore();
	snapshot->rewinds++;
	reprise_age();
	reprise_plant_in_rewind();
	if (reprise_options.audits) {
		reprise_audit(is_fast);
	}
	wire_rewound(&reprise_worker->wire, is_fast, snapshot->put_back);
	snapshot->dirty = 0;
	/* This comes last: a write from here on counts as one of the next request. A fast rewind leaves the count that it
	 * has read: if it has faulted itself, the next one scans. */
	if (!is_fast) {
		snapshot->faults = reprise_faults();
	}
}
