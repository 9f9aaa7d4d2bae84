/*
 * Mappings: they are read from /proc/self/maps and smaps, and put back. This runs on the service stack.
 *
 * The mappings of the snapshot are compared with the present ones by address and not by line, because lines split and
 * merge with protections and registrations. A new mapping is unmapped. An anonymous mapping that is gone or replaced is
 * mapped again, registered and copied. No other mapping (of a library or file) can be made again.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "../core/raw.h"
#include "hot.h"
#include "maps.h"
#include "../core/snapshot_state.h"
#include "../core/recycle.h"
#include "ways.h"
#include "pages.h"

struct reader {
	long descriptor;
	size_t have, at;
	char bytes[16384];
};

/* The next line, with a zero byte in the place of its end. NULL: the file has no more lines. Long lines are cut. */
static char *next_line(struct reader *reader)
{
	for (;;) {
		char *start = reader->bytes + reader->at;
		for (char *end = start; end < reader->bytes + reader->have; end++) {
			if (*end == '\n') {
				*end = 0;
				reader->at = (size_t)(end + 1 - reader->bytes);
				return start;
			}
		}
		size_t rest = reader->have - reader->at;
		for (size_t i = 0; i < rest; i++) {
			reader->bytes[i] = start[i];
		}
		reader->at = 0;
		reader->have = rest;
		if (rest == sizeof reader->bytes) {
			reader->bytes[rest - 1] = '\n';
			continue;
		}
		long got = RAW3(SYS_read, reader->descriptor, reader->bytes + rest, sizeof reader->bytes - rest);
		if (got <= 0) {
			return NULL;
		}
		reader->have += (size_t)got;
	}
}

static bool parse(const char *line, struct mapping *mapping, const char **name)
{
	*mapping = (struct mapping){0};
	mapping->start = raw_hex(&line);
	if (*line++ != '-') {
		return false;
	}
	mapping->end = raw_hex(&line);
	if (*line != ' ') {
		return false;
	}
	mapping->protection = (uint8_t)((line[1] == 'r' ? PROT_READ : 0) | (line[2] == 'w' ? PROT_WRITE : 0)
	                                | (line[3] == 'x' ? PROT_EXEC : 0));
	mapping->is_private = line[4] == 'p';
	line += 6;
	mapping->offset = raw_hex(&line);
	line++;
	mapping->device = (uint32_t)raw_hex(&line) << 20;
	line++;
	mapping->device |= (uint32_t)raw_hex(&line);
	line++;
	mapping->inode = raw_number(&line);
	while (*line == ' ') {
		line++;
	}
	*name = line;
	return true;
}

static bool has_flag(const char *flags, const char *wanted)
{
	for (; *flags; flags++) {
		if (flags[0] == wanted[0] && flags[1] == wanted[1] && (flags[2] == ' ' || !flags[2])) {
			return true;
		}
	}
	return false;
}

/* Calls `visit` for each mapping in the order of addresses, until it returns false. smaps has flags, too. 0 or a
 * negative errno. */
long snapshot_each_mapping_of(int descriptor, mapping_visitor visit, void *context)
{
	struct reader reader = {.descriptor = descriptor};
	struct mapping mapping;
	char kept[128] = "";
	const char *name;
	bool has_mapping = false, goes_on = true;

	for (char *line; goes_on && (line = next_line(&reader));) {
		if (line[0] >= 'A' && line[0] <= 'Z') {
			static const char flags[] = "VmFlags:";
			bool is_flags = true;
			for (size_t i = 0; i < sizeof flags - 1; i++) {
				is_flags = is_flags && line[i] == flags[i];
			}
			if (is_flags) {
				mapping.is_volatile = has_flag(line + 8, "dp") || has_flag(line + 8, "wf");
				mapping.is_huge = has_flag(line + 8, "ht");
			}
			continue;
		}
		struct mapping next;
		if (!parse(line, &next, &name)) {
			continue;
		}
		goes_on = !has_mapping || visit(&mapping, kept, context);
		mapping = next;
		has_mapping = true;
		size_t size = 0;
		for (; name[size] && size < sizeof kept - 1; size++) {
			kept[size] = name[size];
		}
		kept[size] = 0;
	}
	if (goes_on && has_mapping) {
		visit(&mapping, kept, context);
	}
	return 0;
}

long snapshot_each_mapping(const char *file, mapping_visitor visit, void *context)
{
	long descriptor = RAW3(SYS_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC);

	if (descriptor < 0) {
		return descriptor;
	}
	long error = snapshot_each_mapping_of((int)descriptor, visit, context);
	RAW1(SYS_close, descriptor);
	return error;
}

bool snapshot_is_own(uintptr_t start, uintptr_t end)
{
	for (size_t i = 0; i < OWN_RANGES; i++) {
		if (start < snapshot->image.own[i].end && end > snapshot->image.own[i].start) {
			return true;
		}
	}
	return false;
}

/* The region of an address. If it is in no region: the first region after it, or NULL. */
const struct region *snapshot_region_of(uintptr_t address)
{
	size_t low = 0, high = snapshot->image.region_count;

	while (low < high) {
		size_t middle = (low + high) / 2;
		if (snapshot->image.regions[middle].end <= address) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low < snapshot->image.region_count ? &snapshot->image.regions[low] : NULL;
}

/* How far the comparison has come. */
struct comparison {
	size_t saved; /* number of the mapping of the snapshot */
	uintptr_t at; /* addresses before this one are compared */
	long result;
	size_t new_count;
	struct range new_ranges[64];
};

/* A part of a mapping of the snapshot is not mapped as it was. */
static void make_again(struct comparison *comparison, const struct mapping *saved, uintptr_t start, uintptr_t end)
{
	const struct region *region = snapshot_region_of(start);

	bool is_lost = !(region && region->start <= start) && saved->protection != PROT_NONE;

	if (saved->inode != 0 || !saved->is_private || saved->is_volatile || is_lost) {
		reprise_blame("a mapping of the snapshot is gone and cannot be restored", start);
		comparison->result = 1;
		return;
	}
	void *made = raw_map((void *)start, end - start, saved->protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1);
	if (made != (void *)start) {
		comparison->result = -ENOMEM;
		return;
	}
	if (region && region->start <= start) {
		if (!snapshot_way()->adopt(start, end)) {
			comparison->result = -EINVAL;
			return;
		}
		snapshot_copy_region(region, start, end);
		if (!snapshot_way()->watch(start, end)) {
			comparison->result = -EINVAL;
		}
	}
}

static void compare_piece(struct comparison *comparison, const struct mapping *saved, const struct mapping *now,
                          uintptr_t start, uintptr_t end)
{
	bool is_same_thing = saved->inode == now->inode && saved->device == now->device
	                     && saved->is_private == now->is_private
	                     && (!saved->inode || saved->offset - saved->start == now->offset - now->start);

	if (!is_same_thing) {
		make_again(comparison, saved, start, end);
	} else if (saved->is_private && (now->protection & PROT_WRITE) && !(saved->protection & PROT_WRITE)) {
		reprise_blame("memory that is not rewound has become writable", start);
		comparison->result = 1;
	} else if (saved->protection != now->protection && RAW3(SYS_mprotect, start, end - start, saved->protection) < 0) {
		comparison->result = -EINVAL;
	}
}

static void note_new(struct comparison *comparison, uintptr_t start, uintptr_t end)
{
	if (snapshot_is_own(start, end)) {
		return;
	}
	/* They are unmapped later, because that changes the file that is being read. The next reading finds those that have
	 * no room here. */
	if (comparison->new_count < sizeof comparison->new_ranges / sizeof *comparison->new_ranges) {
		comparison->new_ranges[comparison->new_count++] = (struct range){start, end};
	} else {
		comparison->result = -E2BIG;
	}
}

/* There is no mapping between the last compared address and `until`. */
static void compare_gap(struct comparison *comparison, uintptr_t until)
{
	while (comparison->saved < snapshot->image.mapping_count && comparison->at < until) {
		const struct mapping *saved = &snapshot->image.mappings[comparison->saved];
		uintptr_t start = saved->start > comparison->at ? saved->start : comparison->at;
		uintptr_t end = saved->end < until ? saved->end : until;
		if (start < end) {
			make_again(comparison, saved, start, end);
		}
		if (saved->end > until) {
			break;
		}
		comparison->saved++;
	}
	comparison->at = until > comparison->at ? until : comparison->at;
}

static bool compare(const struct mapping *now, const char *name, void *context)
{
	struct comparison *comparison = context;

	if (name[0] == '[' && name[1] == 'v' && name[2] == 's') {
		return true; /* vsyscall: the kernel's own */
	}
	compare_gap(comparison, now->start);
	while (comparison->at < now->end) {
		while (comparison->saved < snapshot->image.mapping_count
		       && snapshot->image.mappings[comparison->saved].end <= comparison->at) {
			comparison->saved++;
		}
		const struct mapping *saved =
		    comparison->saved < snapshot->image.mapping_count ? &snapshot->image.mappings[comparison->saved] : NULL;
		uintptr_t end = now->end;
		if (!saved || saved->start >= now->end) {
			note_new(comparison, comparison->at, end);
		} else if (saved->start > comparison->at) {
			end = saved->start;
			note_new(comparison, comparison->at, end);
		} else {
			end = saved->end < end ? saved->end : end;
			compare_piece(comparison, saved, now, comparison->at, end);
		}
		comparison->at = end;
	}
	return comparison->result >= 0;
}

long snapshot_restore_mappings(void)
{
	/* One reading notes 64 new ranges, and a process has at most 65,530 mappings. */
	for (int reading = 0; reading < 1100; reading++) {
		struct comparison comparison = {0};
		long error = snapshot_each_mapping("/proc/self/maps", compare, &comparison);
		if (error < 0) {
			return error;
		}
		for (size_t i = 0; i < comparison.new_count; i++) {
			struct range *range = &comparison.new_ranges[i];
			RAW2(SYS_munmap, range->start, range->end - range->start);
		}
		if (comparison.result == -E2BIG) {
			continue;
		}
		if (comparison.result == 0) {
			compare_gap(&comparison, UINTPTR_MAX);
		}
		return comparison.result;
	}
	return -E2BIG;
}
