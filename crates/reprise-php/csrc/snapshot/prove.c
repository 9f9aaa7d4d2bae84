/*
 * Proofs that a rewind has put everything back. They use other means than the rewind. Any doubt ends the worker, and a
 * fresh clone takes its place. This runs on the service stack.
 *
 * After each request: the mapped size, one thread, no child, whether memory is still watched. An audit compares every
 * mapping and every byte with the image; bytes of pages that were free at the snapshot (hot.c) only with the option
 * `scrub`.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "../core/options.h"
#include "../core/raw.h"
#include "maps.h"
#include "pages.h"
#include "prove.h"
#include "../core/snapshot_state.h"
#include "ipc.h"
#include "../core/recycle.h"
#include "ways.h"

/* A joined thread may still be in /proc for a moment. */
#define THREAD_PATIENCE 2000

static bool read_sizes(struct sizes *sizes)
{
	/* size, resident, shared, text, lib, data. The kernel changes resident and shared by itself. */
	uint64_t unused, *const fields[] = {&sizes->mapped, &unused, &unused, &sizes->code, &unused, &sizes->data};
	char text[128];
	long size = RAW4(SYS_pread64, snapshot->kernel.statm, text, sizeof text - 1, 0);
	const char *at = text;

	if (size <= 0) {
		return false;
	}
	text[size] = 0;
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
		*fields[i] = raw_number(&at);
		at++;
	}
	return true;
}

bool snapshot_sizes_are_right(void)
{
	const struct sizes *then = &snapshot->watch.sizes;
	struct sizes now = {0};

	return read_sizes(&now) && now.mapped == then->mapped && now.code == then->code && now.data == then->data;
}

static bool has_one_thread(void)
{
	struct stat about;

	for (int i = 0; i < THREAD_PATIENCE; i++) {
		/* Links of the directory: its own, one of its parent, and one for each thread. */
		if (RAW2(SYS_fstat, snapshot->kernel.task_directory, &about) >= 0 && about.st_nlink == 3) {
			return true;
		}
		RAW0(SYS_sched_yield);
	}
	return false;
}

static bool has_no_child(void)
{
	long pid;

	while ((pid = RAW4(SYS_wait4, -1, NULL, WNOHANG | __WALL, NULL)) > 0) {
	}
	return pid < 0;
}

void snapshot_prove_start(void)
{
	if (!read_sizes(&snapshot->watch.sizes)) {
		reprise_recycle(ipc_Recycle_Kernel, "/proc/self/statm cannot be read");
	}
}

/* This comes before memory is unmapped: a thread that still runs would crash. */
void snapshot_prove_alone(void)
{
	if (!has_no_child()) {
		/* The child goes on, as it would under PHP-FPM. This process ends, because it shares memory with the child. */
		reprise_recycle(ipc_Recycle_Children, "a request left a child process running");
	}
	if (!has_one_thread()) {
		reprise_recycle(ipc_Recycle_Threads, "a request left a thread running");
	}
}

void snapshot_prove_watched(bool has_searched)
{
	const char *why = snapshot_way()->meddled(has_searched);

	if (why) {
		reprise_recycle(ipc_Recycle_Protection, why);
	}
}

void snapshot_prove_mappings(void)
{
	if (!snapshot_sizes_are_right()) {
		snapshot->notes.dirty |= DIRTY_MAPPINGS;
	}
	if (snapshot->notes.dirty & DIRTY_OPENED) {
		reprise_recycle(ipc_Recycle_Mappings, snapshot->notes.culprit);
	}
	if (snapshot->notes.dirty & DIRTY_GUARDS) {
		snapshot_remove_guards();
	}
	if (snapshot->notes.dirty & DIRTY_MAPPINGS) {
		long result = snapshot_restore_mappings();
		if (result > 0) {
			reprise_recycle(ipc_Recycle_Mappings, snapshot->notes.culprit);
		}
		if (result < 0) {
			reprise_recycle(ipc_Recycle_Kernel, "mappings cannot be put back");
		}
		if (!snapshot_sizes_are_right()) {
			reprise_recycle(ipc_Recycle_Size, "the process has another size than before the request");
		}
	}
	snapshot_prove_watched(false);
}

static bool is_identity(uintptr_t address)
{
	for (size_t i = 0; i < IDENTITIES; i++) {
		if (address >= snapshot->image.identity[i].start && address < snapshot->image.identity[i].end) {
			return true;
		}
	}
	return false;
}

static void audit_page(const struct region *region, uintptr_t page, bool was_fast)
{
	const unsigned char *image = image_of(region, page);

	/* PHP relies on no byte of it. */
	uint8_t state = *hits_of(region, page);
	if ((state == PAGE_FREE || state == PAGE_OPEN) && !reprise_options.scrubs) {
		return;
	}
	if (!page_differs((const unsigned char *)page, image)) {
		return;
	}
	for (size_t i = 0; i < PAGE; i++) {
		if (((const unsigned char *)page)[i] != image[i] && !is_identity(page + i)) {
			struct raw_text text = {0};
			raw_add(&text, was_fast ? "after a fast rewind" : "after a scanned rewind");
			raw_add(&text, ", memory differs from the snapshot at ");
			raw_add_hex(&text, page + i);
			raw_add(&text, " (mapping ");
			raw_add_hex(&text, region->start);
			raw_add(&text, ")");
			text.bytes[text.size] = 0;
			reprise_recycle(ipc_Recycle_Audit, text.bytes);
		}
	}
}

struct mapping_audit {
	size_t at;
	bool differs;
};

static bool audit_mapping(const struct mapping *now, const char *name, void *context)
{
	struct mapping_audit *audit = context;
	const struct range *slab = &snapshot->image.own[OWN_SLAB];

	if ((name[0] == '[' && name[1] == 'v' && name[2] == 's') || (now->start >= slab->start && now->end <= slab->end)) {
		return true;
	}
	/* Mappings may have merged or split since. Each address has to be mapped as it was. */
	uintptr_t at = now->start;
	while (at < now->end) {
		while (audit->at < snapshot->image.mapping_count && snapshot->image.mappings[audit->at].end <= at) {
			audit->at++;
		}
		const struct mapping *saved = &snapshot->image.mappings[audit->at];
		if (audit->at == snapshot->image.mapping_count || saved->start > at || saved->protection != now->protection
		    || saved->inode != now->inode || saved->is_private != now->is_private) {
			audit->differs = true;
			return false;
		}
		at = saved->end;
	}
	return true;
}

void snapshot_audit(bool was_fast)
{
	struct mapping_audit audit = {0};

	if (snapshot_each_mapping("/proc/self/maps", audit_mapping, &audit) < 0 || audit.differs) {
		reprise_recycle(ipc_Recycle_Audit, was_fast ? "after a fast rewind, mappings differ from the snapshot"
		                                            : "after a scanned rewind, mappings differ from the snapshot");
	}
	for (size_t i = 0; i < snapshot->image.region_count; i++) {
		const struct region *region = &snapshot->image.regions[i];
		for (uintptr_t page = region->start; page < region->end; page += PAGE) {
			audit_page(region, page, was_fast);
		}
	}
}
