/*
 * Written pages by soft-dirty bits (CONFIG_MEM_SOFT_DIRTY, since Linux 3.11). A write to /proc/self/clear_refs clears
 * the bits of all pages of the process and write-protects them; the first write to a page is a fault, and sets its bit.
 * On the service stack.
 *
 * Pages cannot be protected one by one. So `watch` only notes that some have to be, and `end` clears all bits and
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
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "../core/descriptors.h"
#include "../core/raw.h"
#include "../core/recycle.h"
#include "../core/snapshot_state.h"
#include "hot.h"
#include "pagemap.h"
#include "softdirty.h"
#include "ways.h"

long snapshot_soft_dirty_open(void)
{
	return RAW4(SYS_openat, AT_FDCWD, "/proc/self/clear_refs", O_WRONLY | O_CLOEXEC, 0);
}

static bool clear(int clear_refs)
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

static bool is_marked(int pagemap, const volatile unsigned char *page)
{
	uint64_t entry = 0;
	long size = RAW4(SYS_pread64, pagemap, &entry, sizeof entry, (uintptr_t)page / PAGE * sizeof entry);

	return size == sizeof entry && (entry & ENTRY_SOFT_DIRTY);
}

static long find(uint64_t *from, uint64_t end, struct page_range *found, size_t room, bool strict)
{
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
	return is_marked(snapshot->kernel.pagemap, snapshot->watch.canary)
	           ? NULL
	           : "soft-dirty bits were cleared by somebody else, who can hide what was written";
}

static bool note(uintptr_t start, uintptr_t end)
{
	(void)start;
	(void)end;
	snapshot->watch.must_clear = true;
	return true;
}

static bool nothing(uintptr_t start, uintptr_t end)
{
	(void)start;
	(void)end;
	return true;
}

/* Every page that is to be watched is protected. The kernel leaves a page writable that it moves in that moment, or
 * that somebody holds for input or output; and a large page that has an unwatched one in it. */
static bool is_protected(void)
{
	struct page_range found[64];

	for (size_t i = 0; i < snapshot->image.region_count; i++) {
		const struct region *region = &snapshot->image.regions[i];
		uint64_t from = region->start;
		while (from < region->end) {
			long count = find(&from, region->end, found, sizeof found / sizeof *found, false);
			if (count < 0) {
				return false;
			}
			for (long j = 0; j < count; j++) {
				if (!(found[j].kind & FOUND_UNMARKED) && snapshot_is_watched(region, found[j].start, found[j].end)) {
					return false;
				}
			}
		}
	}
	return true;
}

/* So often bits are cleared until all pages are protected. */
#define ATTEMPTS 4

static bool end(void)
{
	if (!snapshot->watch.must_clear) {
		return false;
	}
	for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
		if (!is_still(&snapshot->watch.clear_refs) || !clear(snapshot->watch.descriptor)) {
			break;
		}
		(*snapshot->watch.canary)++;
		snapshot_touch_unwatched();
		if (is_protected()) {
			snapshot->watch.must_clear = false;
			return true;
		}
	}
	reprise_recycle(wire_Recycle_Protection, "pages cannot be protected any more by clearing soft-dirty bits");
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
    .isolation = wire_Isolation_SoftDirty,
    .arm = arm,
    .adopt = nothing,
    .watch = note,
    .release = nothing,
    .find = find,
    .meddled = meddled,
    .end = end,
};

/* ---- a trial ---------------------------------------------------------------------------------------------------- */

#define TRIAL_PAGES 8
#define TRIALS 5

/* After a first call, which may touch the stack for the first time, a second one adds nothing. */
static long faults_so_far(void)
{
	return snapshot_faults().self;
}

/* How many of the pages are marked, as a bit for each. */
static unsigned marks(int pagemap, const volatile unsigned char *pages)
{
	unsigned all = 0;

	for (unsigned i = 0; i < TRIAL_PAGES; i++) {
		all |= (unsigned)is_marked(pagemap, pages + i * PAGE) << i;
	}
	return all;
}

/* A child has the page from its parent, as a clone has all of its pages: its first write is marked, and it alone. */
static bool shows_in_a_child(volatile unsigned char *pages)
{
	int status = -1;
	long child = raw_fork_unheard();

	if (child == 0) {
		long clear_refs = snapshot_soft_dirty_open();
		long pagemap = RAW4(SYS_openat, AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC, 0);
		bool works = clear_refs >= 0 && pagemap >= 0 && clear((int)clear_refs) && marks((int)pagemap, pages) == 0;
		long before = faults_so_far();
		before = faults_so_far();
		pages[2 * PAGE]++;
		long after = faults_so_far();
		works = works && after > before && marks((int)pagemap, pages) == 1u << 2;
		for (;;) {
			RAW1(SYS_exit_group, works ? 0 : 1);
		}
	}
	if (child > 0) {
		while (RAW4(SYS_wait4, child, &status, __WALL, NULL) == -EINTR) {
		}
	}
	return status == 0;
}

static int try_with(int pagemap, int clear_refs, volatile unsigned char *pages)
{
	struct timespec now;

	for (unsigned i = 0; i < TRIAL_PAGES; i++) {
		pages[i * PAGE] = 1;
	}
	if (!clear(clear_refs)) {
		return SOFTDIRTY_NO_CLEAR;
	}
	if (marks(pagemap, pages) != 0) {
		return SOFTDIRTY_STAYS;
	}
	long before = faults_so_far();
	before = faults_so_far();
	pages[1 * PAGE]++;
	pages[5 * PAGE]++;
	long once = faults_so_far();
	pages[1 * PAGE]++;
	pages[5 * PAGE]++;
	long twice = faults_so_far();
	if (marks(pagemap, pages) != (1u << 1 | 1u << 5)) {
		return SOFTDIRTY_UNMARKED;
	}
	if (once - before < 2) {
		return SOFTDIRTY_UNCOUNTED;
	}
	if (twice != once) {
		return SOFTDIRTY_COUNTED;
	}
	RAW2(SYS_clock_getres, 0, &now);
	long unwritten = faults_so_far();
	RAW2(SYS_clock_getres, 0, pages + 3 * PAGE);
	if (faults_so_far() <= unwritten || marks(pagemap, pages) != (1u << 1 | 1u << 5 | 1u << 3)) {
		return SOFTDIRTY_KERNEL;
	}
	return shows_in_a_child(pages) ? SOFTDIRTY_WORKS : SOFTDIRTY_CHILD;
}

int snapshot_soft_dirty_try(int pagemap, int clear_refs)
{
	/* Guards on both sides: the pages shall be a mapping of their own. */
	unsigned char *base = raw_map(NULL, (TRIAL_PAGES + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	if (raw_failed(base)) {
		return SOFTDIRTY_NO_MEMORY;
	}
	int step = SOFTDIRTY_NO_MEMORY;
	if (RAW3(SYS_mprotect, base + PAGE, TRIAL_PAGES * PAGE, PROT_READ | PROT_WRITE) >= 0) {
		/* A processor that does not know yet that a page may be written to faults once more. That is seldom, and harms
		 * nothing. */
		int trials = 0;
		do {
			step = try_with(pagemap, clear_refs, base + PAGE);
		} while (step == SOFTDIRTY_COUNTED && ++trials < TRIALS);
	}
	RAW2(SYS_munmap, base, (TRIAL_PAGES + 2) * PAGE);
	return step;
}
