/*
 * The rewind: memory back to the image. On the service stack.
 *
 * Pages that many requests write are hot: they are not protected, and always copied back. All others are
 * write-protected by an asynchronous userfaultfd: the first write to one is a page fault that the kernel settles by
 * itself and counts. If the counters have not moved and no call was made that changes memory without a fault
 * (dirty*.c), only hot pages can differ: copying them is the whole rewind. Otherwise PAGEMAP_SCAN lists what was
 * written. ARCHITECTURE.md goes through the cases.
 *
 * A page found written twice within AGING rewinds becomes hot: a copy costs some 0.1 µs each time, a fault and the scan
 * it causes a thousand times that. Every RELEARN rewinds all that was learned is forgotten, so that what one odd
 * request wrote is not copied for ever.
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
/* Bytes of a region that is scanned by itself. */
#define LARGE (1024 * 1024)
/* Regions with no more than this between them are scanned by one call; the kernel walks over the gap quickly. */
#define SCAN_GAP (UINT64_C(1) << 36)

struct faults reprise_faults(void)
{
	struct rusage self = {0}, children = {0};

	/* SELF has all threads, the ended ones too. */
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

/* A page with bytes that are the clone's own: they stay. */
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

/* Pinned pages are few (two at most) and carry identity; the others are plain. */
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

/* True if the page has become hot and is not to be protected again. */
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

/* Written pages of one region: hot ones are copied already, the others are copied and protected. */
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

/* Something was mapped over a region, so that it is not watched any more: all of it is registered and copied anew. */
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

/* Everything, region by region: mappings may have been replaced, or memory dropped. */
static size_t scan_each(void)
{
	size_t pages = 0;

	for (size_t i = 0; i < snapshot->region_count; i++) {
		pages += scan_range(snapshot->regions[i].start, snapshot->regions[i].end, true);
	}
	return pages;
}

/* The heaps, one by one: few, and where nearly all is written. */
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

/* The others, most of them libraries' few writable pages: all between two large ones by one call. */
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
 * Pages that were written, after faults were counted or a call was noted. Each first write to a page that is not hot is
 * a fault. So if nothing but faults can have changed memory, and as many such pages are found in the heaps as there
 * were faults, all faults are explained, and the rest is clean without being looked at.
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

/* MADV_GUARD_REMOVE, of Linux 6.13: pages that are no guards stay as they are. */
void reprise_remove_guards(void)
{
	for (size_t i = 0; i < snapshot->region_count; i++) {
		const struct region *region = &snapshot->regions[i];
		RAW3(SYS_madvise, region->start, region->end - region->start, 103);
	}
}

/* The raw call: libc's own view of the break lies in memory that is about to be restored, and calloc believes that what
 * lies behind it is zero. */
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
	/* Children are reaped there: only then do the counters know of their faults. */
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
	/* Last of all: what is written by anybody from here on counts against the next request. */
	snapshot->faults = reprise_faults();
}
