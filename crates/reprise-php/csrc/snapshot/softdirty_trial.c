/*
 * Whether soft-dirty bits do on this kernel what rewinds need of them: pages are written in every way that counts, and
 * looked at. Called by needs.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>

#include "../core/raw.h"
#include "../core/snapshot_state.h"
#include "softdirty.h"
#include "ways.h"

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
		all |= (unsigned)snapshot_soft_dirty_is_marked(pagemap, pages + i * PAGE) << i;
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
		bool works = clear_refs >= 0 && pagemap >= 0 && snapshot_soft_dirty_clear((int)clear_refs)
		             && marks((int)pagemap, pages) == 0;
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

/* A page to which writing was forbidden meanwhile: its first write is a fault and marked, as if it had not been. */
static bool shows_after_mprotect(int pagemap, volatile unsigned char *pages)
{
	volatile unsigned char *page = pages + 6 * PAGE;

	if (RAW3(SYS_mprotect, page, PAGE, PROT_READ) < 0 || RAW3(SYS_mprotect, page, PAGE, PROT_READ | PROT_WRITE) < 0
	    || snapshot_soft_dirty_is_marked(pagemap, page)) {
		return false;
	}
	long before = faults_so_far();
	*page = 2;
	return faults_so_far() > before && snapshot_soft_dirty_is_marked(pagemap, page);
}

static int try_with(int pagemap, int clear_refs, volatile unsigned char *pages)
{
	struct timespec now;

	for (unsigned i = 0; i < TRIAL_PAGES; i++) {
		pages[i * PAGE] = 1;
	}
	if (!snapshot_soft_dirty_clear(clear_refs)) {
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
	if (!shows_after_mprotect(pagemap, pages)) {
		return SOFTDIRTY_MPROTECT;
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
