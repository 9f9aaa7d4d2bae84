/*
 * The rewind: it puts memory back to the image. This runs on the service stack.
 *
 * Pages that many requests write are hot. They are not protected, and every rewind copies them. All others are
 * write-protected by an asynchronous userfaultfd: the first write to a page is a page fault, which the kernel resolves
 * and counts. If the counters have not changed, and no call has changed memory without a fault (dirty*.c), only hot
 * pages can differ, and copying them is the whole rewind. Otherwise PAGEMAP_SCAN lists the written pages.
 * ARCHITECTURE.md lists the cases.
 *
 * A page that is written twice within AGING rewinds becomes hot: a copy costs about 0.1 µs, and a fault with its scan a
 * thousand times that. After RELEARN rewinds all hot pages are forgotten. So pages that one unusual request has written
 * are not copied for ever.
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
#include "kernel.h"
#include "maps.h"
#include "pages.h"
#include "prove.h"
#include "rewind.h"
#include "scan.h"
#include "snapshot.h"
#include "wire.h"

#define PINNED 255
#define HOT 254
#define HIT 64
#define HOT_AT 128
#define AGING 256
#define RELEARN 8192
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

/* Copies a page, without the bytes that each clone has for itself. */
static void copy_around_identity(unsigned char *page, const unsigned char *image)
{
	uintptr_t at = (uintptr_t)page, end = at + PAGE;

	while (at < end) {
		uintptr_t stop = end, next = end;
		for (size_t i = 0; i < IDENTITIES; i++) {
			const struct range *own = &snapshot->identity[i];
			if (own->end > at && own->start < stop) {
				stop = own->start > at ? own->start : at;
				next = own->end;
			}
		}
		raw_copy((void *)at, image + (at - (uintptr_t)page), stop - at);
		at = next;
	}
}

static bool has_identity(uintptr_t page)
{
	for (size_t i = 0; i < IDENTITIES; i++) {
		if (snapshot->identity[i].start < page + PAGE && snapshot->identity[i].end > page) {
			return true;
		}
	}
	return false;
}

void reprise_copy_region(const struct region *region, uintptr_t from, uintptr_t to)
{
	for (uintptr_t page = from; page < to; page += PAGE) {
		if (has_identity(page)) {
			copy_around_identity((unsigned char *)page, image_of(region, page));
		} else {
			copy_page((unsigned char *)page, image_of(region, page));
		}
	}
}

void reprise_pin(uintptr_t start, uintptr_t end)
{
	for (uintptr_t page = start & ~(PAGE - 1); page < end; page += PAGE) {
		const struct region *region = reprise_region_of(page);
		if (region && region->start <= page) {
			*hits_of(region, page) = PINNED;
			write_protect(page, page + PAGE, 0);
		}
	}
}

/* At most two pages are pinned: they have bytes that each clone has for itself. */
static size_t copy_hot_pages(void)
{
	size_t pages = 0;

	for (size_t i = 0; i < IDENTITIES; i++) {
		uintptr_t last = 0;
		for (uintptr_t page = snapshot->identity[i].start & ~(PAGE - 1); page < snapshot->identity[i].end;
		     page += PAGE) {
			const struct region *region = reprise_region_of(page);
			if (region && region->start <= page && page != last) {
				copy_around_identity((unsigned char *)page, image_of(region, page));
				pages++;
			}
			last = page;
		}
	}
	size_t first = IS_PLANTED(PLANTED_INDEX_PAST_HOT) ? MAX_HOT : 0;
	for (size_t i = first; i < first + snapshot->hot_count; i++) {
		copy_page(snapshot->hot[i].page, snapshot->hot[i].image);
	}
	return pages + snapshot->hot_count;
}

/* True: the page has become hot, and is not protected again. */
static bool count_hit(uintptr_t page, const struct region *region)
{
	uint8_t *hits = hits_of(region, page);

	*hits = (uint8_t)(*hits + HIT > HOT_AT ? HOT_AT : *hits + HIT);
	if (*hits < HOT_AT || snapshot->hot_count == MAX_HOT) {
		return false;
	}
	*hits = HOT;
	snapshot->hot[snapshot->hot_count++] = (struct hot_page){(unsigned char *)page, image_of(region, page)};
	return true;
}

static void protect_or_recycle(uintptr_t start, uintptr_t end)
{
	if (start < end && !reprise_protect(start, end)) {
		reprise_recycle(wire_Recycle_Protection, "pages cannot be protected any more");
	}
}

/* Written pages of one region. Hot ones are copied before. The others are copied and protected. */
static size_t restore_range(const struct region *region, uintptr_t start, uintptr_t end)
{
	uintptr_t protect_from = start;
	size_t pages = 0;

	for (uintptr_t page = start; page < end; page += PAGE) {
		bool stays_open = *hits_of(region, page) >= HOT;
		if (!stays_open) {
			copy_page((unsigned char *)page, image_of(region, page));
			pages++;
			stays_open = count_hit(page, region);
		}
		if (stays_open) {
			protect_or_recycle(protect_from, page);
			protect_from = page + PAGE;
		}
	}
	protect_or_recycle(protect_from, end);
	return pages;
}

static size_t restore_found(const struct page_range *found)
{
	size_t pages = 0;
	uintptr_t at = found->start;

	while (at < found->end) {
		const struct region *region = reprise_region_of(at);
		if (!region || region->start >= found->end) {
			break;
		}
		uintptr_t start = region->start > at ? region->start : at;
		uintptr_t end = region->end < found->end ? region->end : found->end;
		pages += restore_range(region, start, end);
		at = end;
	}
	return pages;
}

/* Another mapping has replaced the region, so the kernel does not watch it. It is registered and copied as a whole. */
static size_t watch_again(uintptr_t start, uintptr_t end)
{
	const struct region *region = reprise_region_of(start);

	if (!region || region->start != start || region->end != end || !reprise_register(start, end)) {
		reprise_recycle(wire_Recycle_Protection, "memory of the snapshot is not watched any more");
	}
	reprise_copy_region(region, start, end);
	protect_or_recycle(start, end);
	for (size_t i = 0; i < IDENTITIES; i++) {
		reprise_pin(snapshot->identity[i].start, snapshot->identity[i].end);
	}
	return (end - start) / PAGE;
}

static size_t scan_range(uintptr_t start, uintptr_t end, bool strict)
{
	struct page_range found[512];
	uint64_t from = start;
	size_t pages = 0;

	while (from < end) {
		long count = scan_written(snapshot->pagemap, &from, end, found, sizeof found / sizeof *found, strict);
		if (count < 0) {
			return watch_again(start, end);
		}
		for (long i = 0; i < count; i++) {
			pages += restore_found(&found[i]);
		}
	}
	return pages;
}

static bool is_large(const struct region *region)
{
	return region->end - region->start >= LARGE;
}

/* Every region by itself: mappings may have been replaced, or memory dropped. */
static size_t scan_each(void)
{
	size_t pages = 0;

	for (size_t i = 0; i < snapshot->region_count; i++) {
		pages += scan_range(snapshot->regions[i].start, snapshot->regions[i].end, true);
	}
	return pages;
}

/* Large regions, each by itself. These are the few heaps, to which requests write most. */
static size_t scan_large(void)
{
	size_t pages = 0;

	for (size_t i = 0; i < snapshot->region_count; i++) {
		if (is_large(&snapshot->regions[i])) {
			pages += scan_range(snapshot->regions[i].start, snapshot->regions[i].end, true);
		}
	}
	return pages;
}

/* Small regions, most of them a few pages of a library. One call scans all between two large ones. */
static size_t scan_small(void)
{
	size_t pages = 0;

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
		pages += scan_range(snapshot->regions[i].start, snapshot->regions[last].end, false);
		i = last + 1;
	}
	return pages;
}

/*
 * Finds written pages and puts them back, after faults were counted or a call was noted. The first write to a page that
 * is not hot is a fault. If only such writes can have changed memory, and the heaps have as many written pages as there
 * were faults, then no other page was written, and no other region has to be scanned.
 */
static size_t scan(uint64_t faults)
{
	size_t pages;

	if (snapshot->dirty & (DIRTY_MEMORY | DIRTY_MAPPINGS)) {
		return scan_each();
	}
	pages = scan_large();
	return pages == faults ? pages : pages + scan_small();
}

static void age(void)
{
	size_t count = snapshot->image_size / PAGE;

	if (snapshot->rewinds % RELEARN == 0) {
		for (size_t i = 0; i < snapshot->hot_count; i++) {
			uintptr_t page = (uintptr_t)snapshot->hot[i].page;
			protect_or_recycle(page, page + PAGE);
		}
		snapshot->hot_count = 0;
		for (size_t i = 0; i < count; i++) {
			snapshot->hits[i] = snapshot->hits[i] == PINNED ? PINNED : 0;
		}
	} else if (snapshot->rewinds % AGING == 0) {
		for (size_t i = 0; i < count; i++) {
			if (snapshot->hits[i] && snapshot->hits[i] < HOT) {
				snapshot->hits[i] /= 2;
			}
		}
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
	size_t pages;

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
	pages = copy_hot_pages();
	if (!is_fast) {
		pages += scan((uint64_t)(now.self - snapshot->faults.self + now.children - snapshot->faults.children));
	}
	reprise_kernel_restore();
	snapshot->rewinds++;
	age();
	reprise_plant_in_rewind();
	if (reprise_options.audits) {
		reprise_audit(is_fast);
	}
	wire_rewound(&reprise_worker->wire, is_fast, pages);
	snapshot->dirty = 0;
	/* This comes last: a write from here on counts as one of the next request. */
	snapshot->faults = reprise_faults();
}
