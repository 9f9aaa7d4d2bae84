/* Calls that change memory: see dirty.h. */
#define _GNU_SOURCE
#include <iconv.h>
#include <locale.h>
#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/shm.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../core/raw.h"
#include "../core/worker_state.h"
#include "dirty.h"
#include "interpose.h"
#include "random_libc.h"
#include "../core/snapshot_state.h"
#include "../core/mode.h"
#include "../core/recycle.h"

void interpose_memory(void)
{
}

/* MADV_GUARD_INSTALL, of Linux 6.13. */
#define GUARD_INSTALL 102

PUBLIC void *dlopen(const char *file, int flags)
{
	NEXT(dlopen)
	bool is_applications =
	    reprise_worker && (reprise_worker->is_worker || reprise_worker->is_template || reprise_is_worker_mode());
	note(DIRTY_MAPPINGS);
	if (is_applications && file && !(flags & RTLD_NOLOAD)) {
		interpose_random_libc_is_passed_by();
		snapshot->notes.dirty |= DIRTY_PASSED_BY;
	}
	return known(file, flags & ~RTLD_DEEPBIND);
}

/* Of Linux 5.14. */
#define POPULATE_READ 22
#define POPULATE_WRITE 23

__attribute__((noinline)) static long faults_of_this_thread(void)
{
	struct rusage used = {0};

	RAW2(SYS_getrusage, RUSAGE_THREAD, &used);
	return used.ru_minflt + used.ru_majflt;
}

/* No other fault may come between the two counts: signals are blocked, and the first of two equal calls touches all of
 * the stack that the second one needs. */
void interpose_populate(uintptr_t start, uintptr_t end, bool writes)
{
	uint64_t all = ~UINT64_C(0), mask = 0;
	volatile long before;

	RAW4(SYS_rt_sigprocmask, SIG_SETMASK, &all, &mask, RAW_SIGSET_SIZE);
	before = faults_of_this_thread();
	before = faults_of_this_thread();
	RAW3(SYS_madvise, start, end - start, writes ? POPULATE_WRITE : POPULATE_READ);
	long after = faults_of_this_thread();
	snapshot->watch.faults.self += after - before;
	RAW4(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, RAW_SIGSET_SIZE);
}

#ifndef __SANITIZE_ADDRESS__

/* Number of the first mapping of the snapshot that ends after the address. */
static size_t mapping_behind(uintptr_t address)
{
	size_t low = 0, high = snapshot->image.mapping_count;

	while (low < high) {
		size_t middle = (low + high) / 2;
		if (snapshot->image.mappings[middle].end <= address) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low;
}

static bool touches_snapshot(uintptr_t start, uintptr_t end)
{
	size_t at = mapping_behind(start);

	return at < snapshot->image.mapping_count && snapshot->image.mappings[at].start < end;
}

static uintptr_t end_of(const void *start, size_t size)
{
	return TO_PAGE((uintptr_t)start + size);
}

/* A mapping that the request has made. The rewind unmaps it without reading /proc/self/maps. */
static void add_fresh(uintptr_t start, uintptr_t end)
{
	if (snapshot->notes.fresh_count == MAX_FRESH) {
		snapshot->notes.dirty |= DIRTY_MAPPINGS;
		return;
	}
	snapshot->notes.fresh[snapshot->notes.fresh_count++] = (struct range){start, end};
}

static void remove_fresh(uintptr_t start, uintptr_t end)
{
	for (size_t i = 0; i < snapshot->notes.fresh_count; i++) {
		struct range had = snapshot->notes.fresh[i];
		if (had.start >= end || had.end <= start) {
			continue;
		}
		snapshot->notes.fresh[i--] = snapshot->notes.fresh[--snapshot->notes.fresh_count];
		if (had.start < start) {
			add_fresh(had.start, start);
		}
		if (had.end > end) {
			add_fresh(end, had.end);
		}
	}
}

static void note_unmapped(uintptr_t start, uintptr_t end)
{
	if (touches_snapshot(start, end)) {
		snapshot->notes.dirty |= DIRTY_MAPPINGS;
	}
	remove_fresh(start, end);
}

/* A mapping of at most so many bytes gets its pages when a request makes it. */
#define PREFAULTED (64 * 1024)
/*
 * The first use of each page of a new mapping is a fault, which would make the rewind look for written pages of the
 * snapshot. SQLite maps a file for each connection to a database with a write-ahead log, and PCRE maps memory for the
 * code of a pattern. So the kernel is asked for all pages of a small mapping at once, and the faults of that are not
 * counted as the request's.
 */
static void prefault(uintptr_t start, uintptr_t end, int protection)
{
	if (end - start <= PREFAULTED && (protection & (PROT_READ | PROT_WRITE))) {
		interpose_populate(start, end, protection & PROT_WRITE);
	}
}

PUBLIC void *mmap(void *at, size_t size, int protection, int flags, int descriptor, off_t offset)
{
	long made = result(raw6(SYS_mmap, (long)at, (long)size, protection, flags, descriptor, offset));

	if (made != -1 && is_watching()) {
		uintptr_t start = (uintptr_t)made, end = end_of((void *)made, size);
		if (flags & MAP_FIXED) {
			note_unmapped(start, end);
		}
		add_fresh(start, end);
		prefault(start, end, protection);
	}
	return (void *)made;
}

PUBLIC void *mmap64(void *at, size_t size, int protection, int flags, int descriptor, off64_t offset)
{
	return mmap(at, size, protection, flags, descriptor, offset);
}

PUBLIC int munmap(void *at, size_t size)
{
	if (is_watching()) {
		note_unmapped((uintptr_t)at, end_of(at, size));
	}
	return (int)result(RAW2(SYS_munmap, at, size));
}

PUBLIC void *mremap(void *at, size_t size, size_t new_size, int flags, ...)
{
	va_list arguments;

	va_start(arguments, flags);
	void *wanted = flags & MREMAP_FIXED ? va_arg(arguments, void *) : NULL;
	va_end(arguments);
	long made = result(raw6(SYS_mremap, (long)at, (long)size, (long)new_size, flags, (long)wanted, 0));
	if (made != -1 && is_watching()) {
		uintptr_t start = (uintptr_t)made, end = end_of((void *)made, new_size);
		note_unmapped((uintptr_t)at, end_of(at, size));
		if (flags & MREMAP_FIXED) {
			note_unmapped(start, end);
		}
		add_fresh(start, end);
	}
	return (void *)made;
}

/* A mapping of the snapshot becomes writable, and is not rewound. The request could write to it and make it read-only
 * again, and nothing would show that. */
static bool opens_what_is_not_rewound(uintptr_t start, uintptr_t end)
{
	for (size_t i = mapping_behind(start); i < snapshot->image.mapping_count && snapshot->image.mappings[i].start < end;
	     i++) {
		if (snapshot->image.mappings[i].is_private && !(snapshot->image.mappings[i].protection & PROT_WRITE)) {
			return true;
		}
	}
	return false;
}

PUBLIC int mprotect(void *at, size_t size, int protection)
{
	uintptr_t start = (uintptr_t)at, end = end_of(at, size);

	if (is_watching() && touches_snapshot(start, end)) {
		snapshot->notes.dirty |= DIRTY_MAPPINGS;
		if ((protection & PROT_WRITE) && opens_what_is_not_rewound(start, end)) {
			snapshot->notes.dirty |= DIRTY_OPENED;
			reprise_blame("a request made read-only memory of the snapshot writable, by mprotect", start);
		}
	}
	return (int)result(RAW3(SYS_mprotect, at, size, protection));
}

/* Read-only memory that belongs to no file is not in the image. What madvise drops of it is lost. */
static bool drops_what_is_not_rewound(uintptr_t start, uintptr_t end)
{
	for (size_t i = mapping_behind(start); i < snapshot->image.mapping_count && snapshot->image.mappings[i].start < end;
	     i++) {
		const struct mapping *mapping = &snapshot->image.mappings[i];
		if (mapping->is_private && !mapping->inode && !(mapping->protection & PROT_WRITE)
		    && mapping->protection != PROT_NONE) {
			return true;
		}
	}
	return false;
}

static bool is_anonymous(uintptr_t start, uintptr_t end)
{
	for (size_t i = mapping_behind(start); i < snapshot->image.mapping_count && snapshot->image.mappings[i].start < end;
	     i++) {
		if (snapshot->image.mappings[i].inode) {
			return false;
		}
	}
	return true;
}

PUBLIC int madvise(void *at, size_t size, int advice)
{
	if (is_watching() && touches_snapshot((uintptr_t)at, end_of(at, size))) {
		if (drops_what_is_not_rewound((uintptr_t)at, end_of(at, size))) {
			snapshot->notes.dirty |= DIRTY_OPENED;
			reprise_blame("a request called madvise on read-only memory of the snapshot", (uintptr_t)at);
		}
		snapshot->notes.dirty |= DIRTY_MEMORY | (advice == GUARD_INSTALL ? DIRTY_GUARDS : 0);
		snapshot->notes.dirty |= DIRTY_DROPPED;
		if (advice == MADV_MERGEABLE) {
			return 0; /* what was written would not show any more (softdirty.c) */
		}
		/* The kernel would drop the page whenever it wants memory, after the rewind too. At once is as good. */
		if (advice == MADV_FREE && is_anonymous((uintptr_t)at, end_of(at, size))) {
			advice = MADV_DONTNEED;
		}
	}
	return (int)result(RAW3(SYS_madvise, at, size, advice));
}

PUBLIC int posix_madvise(void *at, size_t size, int advice)
{
	return madvise(at, size, advice) == 0 ? 0 : errno;
}

FORWARD_INT(DIRTY_MAPPINGS, brk, (void *to), (to))
FORWARD_INT(DIRTY_MAPPINGS, shmdt, (const void *at), (at))
FORWARD_INT(DIRTY_MAPPINGS, malloc_trim, (size_t pad), (pad))
FORWARD_INT(DIRTY_MAPPINGS, pkey_mprotect, (void *at, size_t size, int protection, int key),
            (at, size, protection, key))

PUBLIC void *sbrk(intptr_t by)
{
	NEXT(sbrk)
	note(by ? DIRTY_MAPPINGS : 0);
	return known(by);
}

/* A library of the snapshot stays: it could not be mapped again at its address. A library that the request has loaded
 * is unmapped with all other mappings of the request. */
PUBLIC int dlclose(void *handle)
{
	NEXT(dlclose)
	return is_watching() ? 0 : known(handle);
}

/* Number of pages that are mapped. */
static uint64_t mapped_pages(void)
{
	char text[64] = "";
	const char *at = text;

	RAW4(SYS_pread64, snapshot->kernel.statm, text, sizeof text - 1, 0);
	return raw_number(&at);
}

/*
 * A change of the locale maps files, and unmaps those of a locale that nobody has any more. The files of the snapshot's
 * locales are held (warm.c), so none of them is unmapped, and what the request has mapped shows in the mapped size.
 */
/* On PHP's stack, within a request. A name that the template would not take is not noted. */
static void note_locale(const char *name)
{
	size_t size = strlen(name);

	if (size < REPRISE_LOCALE && strcmp(name, "C") != 0 && strcmp(name, "POSIX") != 0) {
		memcpy(snapshot->notes.locale, name, size + 1);
	}
}

PUBLIC char *setlocale(int category, const char *locale)
{
	NEXT(setlocale)
	char before[512] = "";

	if (!is_watching() || !locale) {
		return known(category, locale);
	}
	const char *name = known(category, NULL);
	for (size_t i = 0; name && name[i] && i < sizeof before - 1; i++) {
		before[i] = name[i];
		before[i + 1] = 0;
	}
	uint64_t pages = mapped_pages();
	char *set = known(category, locale);
	if (set && strcmp(set, before) != 0) {
		note(snapshot->learned.has_loose_locale || mapped_pages() != pages ? DIRTY_MAPPINGS : 0);
		note_locale(set);
	}
	return set;
}

PUBLIC int iconv_close(iconv_t handle)
{
	NEXT(iconv_close)
	uint64_t before = is_watching() ? mapped_pages() : 0;
	int result = known(handle);

	note(before && mapped_pages() != before ? DIRTY_MAPPINGS : 0);
	return result;
}

PUBLIC locale_t newlocale(int mask, const char *locale, locale_t base)
{
	NEXT(newlocale)
	note(DIRTY_MAPPINGS);
	return known(mask, locale, base);
}

PUBLIC void freelocale(locale_t locale)
{
	NEXT(freelocale)
	uint64_t before = is_watching() ? mapped_pages() : 0;

	known(locale);
	note(before && mapped_pages() != before ? DIRTY_MAPPINGS : 0);
}

#endif
