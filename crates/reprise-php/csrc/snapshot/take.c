/*
 * Takes the snapshot, in the template, on the service stack.
 *
 * The image is a memory file with the contents of every private writable mapping: heap, data of every library, thread
 * storage, and the C stack. The stack below the stack pointer is included, so no data of a request stays there. The
 * image is written by pwrite, sealed, and mapped read-only and private. All clones share its pages, and no clone can
 * change them.
 *
 * The image has no memory of reprise-php itself (the service stack and its state, which each clone has for itself), and
 * no memory that the kernel empties by itself (VmFlags dp and wf: getrandom's state in the vDSO of newer systems). Free
 * pages of PHP's heap are emptied before, and are holes in the image.
 *
 * The memory of the template could be mapped from the memory file, too. That would save one copy per generation (3 to 4
 * MB for Symfony). A clone could then give a page back that it has copied and that requests seldom write, because the
 * file has its content. Of a clone's 435 private pages after WordPress' pages that would be 3 (bench/memory): the
 * others are written by each request. In exchange memory would no longer be anonymous, could not be made again when a
 * request unmaps it, and each first write would be a fault in a file.
 */
#define _GNU_SOURCE
#include <alloca.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/rseq.h>

#include "../engine/heap.h"
#include "../core/raw.h"
#include "../interpose/interpose.h"
#include "kernel.h"
#include "maps.h"
#include "pages.h"
#include "pagemap.h"
#include "../core/snapshot_state.h"
#include "take.h"
#include "ipc.h"
#include "../core/descriptors.h"

/* Most requests use less. When the stack grows, that is a page fault, and a mapping that the rewind has to undo. */
#define STACK_DEPTH (256 * 1024)

__attribute__((noinline)) void snapshot_grow_stack(void)
{
	volatile unsigned char *bytes = alloca(STACK_DEPTH);

	for (size_t i = 0; i < STACK_DEPTH; i += PAGE) {
		bytes[i] = 0;
	}
}

struct listing {
	size_t mappings, regions, image;
	const char *failed;
};

static bool list_mapping(const struct mapping *mapping, const char *name, void *context)
{
	struct listing *listing = context;
	bool is_writable = mapping->is_private && (mapping->protection & PROT_WRITE);

	if (name[0] == '[' && name[1] == 'v' && name[2] == 's') {
		return true; /* vsyscall: the kernel's own */
	}
	if (listing->mappings == MAX_MAPPINGS || listing->regions == MAX_REGIONS) {
		listing->failed = "the process has too many mappings";
		return false;
	}
	snapshot->image.mappings[listing->mappings++] = *mapping;
	if (!is_writable || mapping->is_volatile || snapshot_is_own(mapping->start, mapping->end)) {
		return true;
	}
	if (mapping->is_huge && snapshot->isolation == ipc_Isolation_SoftDirty) {
		listing->failed = "memory in hugetlb pages cannot be watched by soft-dirty bits";
		return false;
	}
	snapshot->image.regions[listing->regions++] = (struct region){
	    .start = mapping->start,
	    .end = mapping->end,
	    .image = listing->image,
	    .is_anonymous = mapping->inode == 0,
	    .is_stack = name[0] == '[' && name[1] == 's' && name[2] == 't',
	    .protection = mapping->protection,
	};
	listing->image += mapping->end - mapping->start;
	return true;
}

static const char *list_mappings(struct listing *listing)
{
	*listing = (struct listing){0};
	if (RAW3(SYS_lseek, snapshot->image.own_smaps, 0, SEEK_SET) < 0
	    || snapshot_each_mapping_of(snapshot->image.own_smaps, list_mapping, listing) < 0) {
		return "/proc/self/smaps cannot be read";
	}
	snapshot->image.mapping_count = listing->mappings;
	snapshot->image.region_count = listing->regions;
	return listing->failed;
}

/* Guard pages keep the kernel from merging this memory with another anonymous mapping. */
static void *map_own(struct range *own, size_t size)
{
	char *base = raw_map(NULL, size + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);

	if (raw_failed(base) || RAW3(SYS_mprotect, base + PAGE, size, PROT_READ | PROT_WRITE) < 0) {
		return NULL;
	}
	*own = (struct range){(uintptr_t)base, (uintptr_t)base + size + 2 * PAGE};
	return base + PAGE;
}

static bool write_all(int file, uintptr_t start, uintptr_t end, size_t at)
{
	while (start < end) {
		long done = RAW4(SYS_pwrite64, file, start, end - start, at);
		if (done <= 0) {
			return false;
		}
		start += (size_t)done;
		at += (size_t)done;
	}
	return true;
}

static uint64_t is_there(uint64_t entry)
{
	return (entry & (ENTRY_PRESENT | ENTRY_SWAPPED)) ? FOUND_PRESENT : FOUND_ABSENT;
}

static void note_holes(const struct region *region, uintptr_t start, uintptr_t end)
{
	for (uintptr_t page = start; page < end; page += PAGE) {
		uint8_t *state = hits_of(region, page);
		*state = *state == PAGE_FREE ? PAGE_FREE : PAGE_HOLE;
	}
}

/* Anonymous memory that was never written is a hole in the file: both read as zeroes. */
static bool write_region(int pagemap, int file, const struct region *region)
{
	struct page_range ranges[256];
	uint64_t from = region->start;

	if (!region->is_anonymous) {
		return write_all(file, region->start, region->end, region->image);
	}
	while (from < region->end) {
		long count = snapshot_find_pages(pagemap, &from, region->end, ranges, 256, is_there);
		if (count < 0) {
			return false;
		}
		for (long i = 0; i < count; i++) {
			if (ranges[i].kind & FOUND_ABSENT) {
				note_holes(region, ranges[i].start, ranges[i].end);
			} else if (!write_all(file, ranges[i].start, ranges[i].end,
			                      region->image + (ranges[i].start - region->start))) {
				return false;
			}
		}
	}
	return true;
}

/* EBUSY: the kernel itself holds a page for reclaim or compaction. It has waited for that page before it says so. */
#define SEAL_ATTEMPTS 10

static bool seal(int file)
{
	int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	long result = -EBUSY;

	for (int attempt = 0; attempt < SEAL_ATTEMPTS && result == -EBUSY; attempt++) {
		result = RAW3(SYS_fcntl, file, F_ADD_SEALS, seals);
	}
	return result >= 0;
}

static const char *make_image(void)
{
	size_t size = snapshot->image.size;
	int file = (int)RAW2(SYS_memfd_create, "reprise-image", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	bool done = file >= 0 && RAW2(SYS_ftruncate, file, size) >= 0;

	/* It is mapped before it is filled, so that the final list of mappings has it. The mapping is read-only, so its
	 * pages are always those of the file. */
	if (done) {
		void *image =
		    raw_map((void *)snapshot->image.own[OWN_IMAGE].start, size, PROT_READ, MAP_PRIVATE | MAP_FIXED, file);
		done = image == (void *)snapshot->image.own[OWN_IMAGE].start;
	}
	for (size_t i = 0; done && i < snapshot->image.region_count; i++) {
		done = write_region(snapshot->image.own_pagemap, file, &snapshot->image.regions[i]);
	}
	done = done && seal(file);
	RAW1(SYS_close, file);
	return done ? NULL : "the image cannot be written; is memory or RLIMIT_FSIZE too small?";
}

/* The image has a hole for a free page of PHP's heap: nothing relies on its content (hot.c). The boot's own is dropped.
 */
static void drop_free(uintptr_t start, uintptr_t end, void *context)
{
	const struct region *region = snapshot_region_of(start);

	(void)context;
	start = TO_PAGE(start);
	end &= ~(PAGE - 1);
	if (start >= end || !region || region->start > start || region->end < end || !region->is_anonymous) {
		return;
	}
	if (RAW3(SYS_madvise, start, end - start, MADV_DONTNEED) < 0) {
		return; /* it is locked in memory, and stays what it is: a page of the snapshot */
	}
	for (uintptr_t page = start; page < end; page += PAGE) {
		*hits_of(region, page) = PAGE_FREE;
	}
}

static void find_identity(void)
{
	int *tid = NULL;

	if (RAW2(SYS_prctl, PR_GET_TID_ADDRESS, &tid) >= 0 && tid) {
		snapshot->image.identity[IDENTITY_THREAD] = (struct range){(uintptr_t)tid, (uintptr_t)tid + sizeof *tid};
	}
	if (__rseq_size > 0) {
		uintptr_t rseq = (uintptr_t)__builtin_thread_pointer() + (uintptr_t)__rseq_offset;
		snapshot->image.identity[IDENTITY_RSEQ] = (struct range){rseq, rseq + sizeof(struct rseq)};
	}
}

/* Only a dumpable process can open these files. The template is no longer dumpable when it takes another snapshot. */
static bool open_own_files(void)
{
	long smaps = RAW3(SYS_openat, AT_FDCWD, "/proc/self/smaps", O_RDONLY | O_CLOEXEC);
	long pagemap = RAW3(SYS_openat, AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	if (smaps < 0 || pagemap < 0) {
		return false;
	}
	snapshot->image.own_smaps = reprise_lift((int)smaps);
	snapshot->image.own_pagemap = reprise_lift((int)pagemap);
	return true;
}

static void drop_image(void)
{
	for (size_t i = OWN_HITS; i <= OWN_IMAGE; i++) {
		RAW2(SYS_munmap, snapshot->image.own[i].start, snapshot->image.own[i].end - snapshot->image.own[i].start);
		snapshot->image.own[i] = (struct range){0};
	}
}

/* If there is a snapshot, it is taken again. */
bool snapshot_take(const char **why)
{
	struct listing listing;

	find_identity();
	interpose_attributes_start();
	snapshot->image.is_passed_by = snapshot->image.is_passed_by || (snapshot->notes.dirty & DIRTY_PASSED_BY);
	if (snapshot->image.is_taken) {
		snapshot->image.brk = (uintptr_t)RAW1(SYS_brk, 0); /* and no signals: the forker has changed them */
	} else {
		snapshot_kernel_take();
	}
	if (snapshot_rewinds()) {
		if (snapshot->image.is_taken) {
			drop_image();
		} else if (!open_own_files()) {
			*why = "/proc/self cannot be read";
			return false;
		}
		/* The first list has the sizes. Then image and counts are mapped, and the final list has these, too. */
		if ((*why = list_mappings(&listing))) {
			return false;
		}
		snapshot->image.size = listing.image;
		snapshot->hot.hits = map_own(&snapshot->image.own[OWN_HITS], TO_PAGE(listing.image / PAGE + 1) + PAGE);
		snapshot->watch.canary = snapshot->hot.hits + TO_PAGE(listing.image / PAGE + 1);
		void *image = raw_map(NULL, listing.image, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
		if (!snapshot->hot.hits || raw_failed(image)) {
			*why = "there is no room for the image";
			return false;
		}
		snapshot->image.bytes = image;
		snapshot->image.own[OWN_IMAGE] = (struct range){(uintptr_t)image, (uintptr_t)image + listing.image};
		engine_heap_each_free(drop_free, NULL);
		if ((*why = make_image()) || (*why = list_mappings(&listing))) {
			return false;
		}
		if (listing.image != snapshot->image.size) {
			*why = "memory changed while the snapshot was taken";
			return false;
		}
	}
	snapshot->image.is_taken = true;
	return true;
}
