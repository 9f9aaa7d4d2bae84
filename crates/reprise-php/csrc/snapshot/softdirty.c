/*
 * Written pages by soft-dirty bits (CONFIG_MEM_SOFT_DIRTY, since Linux 3.11). A write to /proc/self/clear_refs clears
 * the bits of all pages of the process and write-protects them; the first write to a page is a fault, and sets its bit.
 * On the service stack.
 *
 * Pages cannot be protected one by one. So `watch` only notes which have to be, and `end` clears all bits and
 * touches the pages again that are not watched: otherwise their first writes would count against the next request. A
 * rewind that has put back hot pages alone needs neither.
 *
 * A mapping that has grown counts as written as a whole until bits are cleared. That costs copies, and is right.
 *
 * Everybody who may write to clear_refs can hide what was written: PHP itself (interpose/dirty_attributes.c sees that),
 * and other processes of its user. So after each clearing a page of this process is written to, the canary. It has to
 * be marked when pages are searched the next time: else somebody has cleared since.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "../core/descriptors.h"
#include "../core/raw.h"
#include "../core/recycle.h"
#include "../core/snapshot_state.h"
#include "hot.h"
#include "maps.h"
#include "pagemap.h"
#include "softdirty.h"
#include "ways.h"

long snapshot_soft_dirty_open(void)
{
	return RAW4(SYS_openat, AT_FDCWD, "/proc/self/clear_refs", O_WRONLY | O_CLOEXEC, 0);
}

bool snapshot_soft_dirty_clear(int clear_refs)
{
	return RAW4(SYS_pwrite64, clear_refs, "4", 1, 0) == 1;
}

static uint64_t marked(uint64_t entry)
{
	/* The bit of a page that is not there is its mapping's. */
	return (entry & (ENTRY_PRESENT | ENTRY_SWAPPED)) ? entry & ENTRY_SOFT_DIRTY
	       : entry & ENTRY_SOFT_DIRTY                ? FOUND_ABSENT
	                                                 : 0;
}

/* A page that was dropped and read again is there, and not marked. So is one that was moved with its page table. */
static uint64_t all(uint64_t entry)
{
	bool is_there = entry & (ENTRY_PRESENT | ENTRY_SWAPPED);

	return !is_there ? FOUND_ABSENT : entry & ENTRY_SOFT_DIRTY ? ENTRY_SOFT_DIRTY : FOUND_PRESENT;
}

bool snapshot_soft_dirty_is_marked(int pagemap, const volatile unsigned char *page)
{
	uint64_t entry = 0;
	long size = RAW4(SYS_pread64, pagemap, &entry, sizeof entry, (uintptr_t)page / PAGE * sizeof entry);

	return size == sizeof entry && (entry & ENTRY_SOFT_DIRTY);
}

static long find(uint64_t *from, uint64_t end, struct page_range *found, size_t room, bool strict)
{
	/* A page may be writable although it has its content, by mprotect for example. */
	snapshot->watch.must_clear |= strict;
	return snapshot_find_pages(snapshot->kernel.pagemap, from, end, found, room, strict ? all : marked);
}

/* Which file a descriptor has. */
static struct owned identity_of(int number)
{
	struct stat about = {0};

	RAW2(SYS_fstat, number, &about);
	return (struct owned){.number = number, .device = about.st_dev, .inode = about.st_ino};
}

static bool is_still(const struct owned *file)
{
	struct owned now = identity_of(file->number);

	return now.device == file->device && now.inode == file->inode && now.inode != 0;
}

static const char *meddled(bool has_searched)
{
	if (!has_searched) {
		return NULL; /* a rewind that searches nothing uses neither file */
	}
	if (!is_still(&snapshot->watch.clear_refs) || !is_still(&snapshot->watch.pagemap)) {
		return "a descriptor of the worker was closed or replaced";
	}
	return snapshot_soft_dirty_is_marked(snapshot->kernel.pagemap, snapshot->watch.canary)
	           ? NULL
	           : "soft-dirty bits were cleared by somebody else, who can hide what was written";
}

static bool note(uintptr_t start, uintptr_t end)
{
	struct snapshot_watch *watch = &snapshot->watch;
	struct range *last = watch->changed_count > 0 ? &watch->changed[watch->changed_count - 1] : NULL;

	watch->must_clear = true;
	if (last && last->end == start) {
		last->end = end;
	} else if (watch->changed_count < MAX_CHANGED) {
		watch->changed[watch->changed_count++] = (struct range){start, end};
	} else {
		watch->all_changed = true;
	}
	return true;
}

static bool nothing(uintptr_t start, uintptr_t end)
{
	(void)start;
	(void)end;
	return true;
}

/* Looks at or changes pages of one region. */
typedef bool (*piece_visitor)(const struct region *region, uintptr_t start, uintptr_t end);

static bool each_piece(uintptr_t start, uintptr_t end, piece_visitor visit)
{
	while (start < end) {
		const struct region *region = snapshot_region_of(start);
		if (!region || region->start > start) {
			return false;
		}
		uintptr_t until = region->end < end ? region->end : end;
		if (!visit(region, start, until)) {
			return false;
		}
		start = until;
	}
	return true;
}

static bool each_region(piece_visitor visit)
{
	for (size_t i = 0; i < snapshot->image.region_count; i++) {
		if (!visit(&snapshot->image.regions[i], snapshot->image.regions[i].start, snapshot->image.regions[i].end)) {
			return false;
		}
	}
	return true;
}

/* What was noted. Only that may be written to without a fault. */
static bool each_changed(piece_visitor visit)
{
	if (snapshot->watch.all_changed) {
		return each_region(visit);
	}
	for (size_t i = 0; i < snapshot->watch.changed_count; i++) {
		if (!each_piece(snapshot->watch.changed[i].start, snapshot->watch.changed[i].end, visit)) {
			return false;
		}
	}
	return true;
}

static bool protect(uintptr_t start, uintptr_t end, int protection)
{
	return start >= end || RAW3(SYS_mprotect, start, end - start, protection) >= 0;
}

/* Not pages that are not watched: they are to stay writable, and to pinned ones the kernel writes at any time. */
static bool protect_watched(const struct region *region, uintptr_t start, uintptr_t end, int protection)
{
	uintptr_t from = start;

	for (uintptr_t page = start; page < end; page += PAGE) {
		if (!snapshot_is_watched(region, page, page + PAGE)) {
			if (!protect(from, page, protection)) {
				return false;
			}
			from = page + PAGE;
		}
	}
	return protect(from, end, protection);
}

static bool forbid_writing(const struct region *region, uintptr_t start, uintptr_t end)
{
	return protect_watched(region, start, end, region->protection & ~PROT_WRITE);
}

static bool allow_writing(const struct region *region, uintptr_t start, uintptr_t end)
{
	return protect_watched(region, start, end, region->protection);
}

/* No watched page is marked. The kernel leaves a page marked that somebody holds for input or output, and a large page
 * that has an unwatched one in it. */
static bool is_protected(const struct region *region, uintptr_t start, uintptr_t end)
{
	struct page_range found[64];
	uint64_t from = start;

	while (from < end) {
		long count = find(&from, end, found, sizeof found / sizeof *found, false);
		if (count < 0) {
			return false;
		}
		for (long i = 0; i < count; i++) {
			if (!(found[i].kind & FOUND_UNMARKED) && snapshot_is_watched(region, found[i].start, found[i].end)) {
				return false;
			}
		}
	}
	return true;
}

/*
 * A page that the kernel moves in the moment of the clearing would come back writable and unmarked. While writing is
 * forbidden it comes back as one that cannot be written to. So writing is forbidden where something was written,
 * until bits are cleared. needs.c has tried that it is a fault to write afterwards.
 */
static bool clear_changed(void)
{
	return is_still(&snapshot->watch.clear_refs) && each_changed(forbid_writing)
	       && snapshot_soft_dirty_clear(snapshot->watch.descriptor) && each_changed(allow_writing);
}

/* So often bits are cleared until all pages are protected. */
#define ATTEMPTS 4

static bool end(void)
{
	struct snapshot_watch *watch = &snapshot->watch;

	if (!watch->must_clear) {
		return false;
	}
	/* In a new clone, and after a strict search, any page may be writable. */
	bool is_any = watch->changed_count == 0;
	for (int attempt = 0; attempt < ATTEMPTS && clear_changed(); attempt++) {
		(*watch->canary)++;
		snapshot_touch_unwatched();
		if (is_any ? each_region(is_protected) : each_changed(is_protected)) {
			watch->must_clear = watch->all_changed = false;
			watch->changed_count = 0;
			return true;
		}
	}
	reprise_recycle(ipc_Recycle_Protection, "pages cannot be protected any more by clearing soft-dirty bits");
}

/* Of Linux 6.4. */
#define SET_MEMORY_MERGE 67

/* KSM puts a page without a mark in the place of one that was written. An older kernel does not know the first call. */
static void forbid_merging(void)
{
	raw6(SYS_prctl, SET_MEMORY_MERGE, 0, 0, 0, 0, 0);
	for (size_t i = 0; i < snapshot->image.region_count; i++) {
		const struct region *region = &snapshot->image.regions[i];
		RAW3(SYS_madvise, region->start, region->end - region->start, MADV_UNMERGEABLE);
	}
}

static const char *arm(void)
{
	long clear_refs = snapshot_soft_dirty_open();

	if (clear_refs < 0) {
		return "/proc/self/clear_refs cannot be opened";
	}
	snapshot->watch.descriptor = reprise_lift((int)clear_refs);
	snapshot->watch.clear_refs = identity_of(snapshot->watch.descriptor);
	snapshot->watch.pagemap = identity_of(snapshot->kernel.pagemap);
	forbid_merging();
	snapshot->watch.must_clear = true;
	return NULL;
}

const struct watch_way snapshot_by_soft_dirty = {
    .isolation = ipc_Isolation_SoftDirty,
    .arm = arm,
    .adopt = nothing,
    .watch = note,
    .release = nothing,
    .find = find,
    .meddled = meddled,
    .end = end,
};
