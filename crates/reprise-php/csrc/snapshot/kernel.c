/*
 * State of a process that the kernel keeps, and that a request may have changed. It is put back after each request.
 * This runs on the service stack.
 *
 * What is cheap is always put back: the directory, the umask, offsets of files that the boot has opened, the number of
 * descriptors. The rest is put back when dirty*.c has seen a call that changes it. Descriptors of the snapshot have
 * copies above ipc_SERVICE_DESCRIPTOR, from which they are made again. All others are closed.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "../core/options.h"
#include "../core/raw.h"
#include "../process/signals.h"
#include "../interpose/interpose.h"
#include "kernel.h"
#include "../core/snapshot_state.h"
#include "ipc.h"
#include "../core/descriptors.h"
#include "../core/recycle.h"

/*
 * A signal handler of PHP would write to memory while it is put back. So on the service stack all signals are blocked
 * but those of faults and those that end the process.
 */
void snapshot_block_signals(void)
{
	static const int open[] = {SIGSEGV, SIGBUS,  SIGILL, SIGFPE,  SIGABRT, SIGTRAP,
	                           SIGSYS,  SIGTERM, SIGINT, SIGQUIT, SIGHUP};
	uint64_t mask = ~UINT64_C(0);

	for (size_t i = 0; i < sizeof open / sizeof *open; i++) {
		struct raw_sigaction action = {0};
		RAW4(SYS_rt_sigaction, open[i], NULL, &action, RAW_SIGSET_SIZE);
		if (action.handler) {
			continue;
		}
		mask &= ~(UINT64_C(1) << (open[i] - 1));
	}
	RAW4(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, RAW_SIGSET_SIZE);
}

static bool has_pending_signals(void)
{
	uint64_t pending = 0;

	RAW2(SYS_rt_sigpending, &pending, RAW_SIGSET_SIZE);
	return pending != 0;
}

void snapshot_kernel_take(void)
{
	snapshot->image.brk = (uintptr_t)RAW1(SYS_brk, 0);
	snapshot->kernel.umask = (unsigned)RAW1(SYS_umask, 0);
	RAW1(SYS_umask, snapshot->kernel.umask);
	/* No timer runs at the snapshot: a timer of the boot is stopped. */
	snapshot->notes.timers = REPRISE_ALL_TIMERS;
	process_timers_stop();
	process_signals_note();
	RAW3(SYS_get_robust_list, 0, &snapshot->kernel.robust_list, &snapshot->kernel.robust_size);
}

/* dirty_files.c may not have seen that an io_uring was made. What it still writes to memory cannot be known. */
static void look_at_stranger(int number)
{
	static const char uring[] = "anon_inode:[io_uring]";
	char target[sizeof uring] = "";
	struct raw_text text = {0};
	size_t i = 0;

	raw_add(&text, "/proc/self/fd/");
	raw_add_number(&text, (uint64_t)number);
	text.bytes[text.size] = 0;
	RAW4(SYS_readlinkat, AT_FDCWD, text.bytes, target, sizeof target);
	while (i < sizeof uring - 1 && target[i] == uring[i]) {
		i++;
	}
	if (i == sizeof uring - 1) {
		reprise_recycle(ipc_Recycle_IoUring, "a request has set up an io_uring");
	}
}

struct directory_entry {
	uint64_t inode;
	int64_t next;
	uint16_t size;
	uint8_t type;
	char name[];
};

/* A stranger belongs neither to the worker nor to the snapshot. */
static void close_stranger(int number, void *context)
{
	(void)context;
	if (interpose_is_known_descriptor(number)) {
		return;
	}
	look_at_stranger(number);
	RAW1(SYS_close, number);
}

static void note_stranger(int number, void *context)
{
	*(bool *)context = *(bool *)context || !interpose_is_known_descriptor(number);
}

static void each_descriptor(void (*visit)(int number, void *context), void *context)
{
	_Alignas(8) char entries[4096];
	long size;

	RAW3(SYS_lseek, snapshot->kernel.descriptor_directory, 0, SEEK_SET);
	while ((size = RAW3(SYS_getdents64, snapshot->kernel.descriptor_directory, entries, sizeof entries)) > 0) {
		for (long at = 0; at < size;) {
			struct directory_entry *entry = (struct directory_entry *)(entries + at);
			const char *name = entry->name;
			at += entry->size;
			if (name[0] < '0' || name[0] > '9') {
				continue;
			}
			visit((int)raw_number(&name), context);
		}
	}
}

static void count_one(int number, void *context)
{
	(void)number;
	++*(int64_t *)context;
}

/* Since Linux 6.2 the size of /proc/self/fd is the number of descriptors. Before, it is zero. */
static int64_t count_descriptors(void)
{
	struct stat about;
	int64_t count = 0;

	if (RAW2(SYS_fstat, snapshot->kernel.descriptor_directory, &about) < 0) {
		return -1;
	}
	if (about.st_size > 0) {
		return about.st_size;
	}
	each_descriptor(count_one, &count);
	return count;
}

bool snapshot_has_only_known_descriptors(void)
{
	bool has_strangers = false;

	each_descriptor(note_stranger, &has_strangers);
	return !has_strangers && count_descriptors() == snapshot->kernel.descriptors;
}

static void restore_descriptors(void)
{
	if (count_descriptors() == snapshot->kernel.descriptors && !(snapshot->notes.dirty & DIRTY_OWNED)) {
		return;
	}
	each_descriptor(close_stranger, NULL);
	for (size_t i = 0; i < snapshot->kernel.owned_count; i++) {
		struct owned *owned = &snapshot->kernel.owned[i];
		if (RAW3(SYS_dup3, snapshot->kernel.owned_copies[i], owned->number, owned->is_kept_on_exec ? 0 : O_CLOEXEC)
		    < 0) {
			reprise_recycle(ipc_Recycle_Descriptors, "a descriptor of the snapshot is gone");
		}
	}
	if (count_descriptors() != snapshot->kernel.descriptors) {
		reprise_recycle(ipc_Recycle_Descriptors, "a descriptor of the worker is gone");
	}
}

/* From here on this clone has a file of its own, with an offset of its own, for a file that the boot has opened. */
static bool reopen(struct owned *owned)
{
	struct raw_text path = {0};

	raw_add(&path, "/proc/self/fd/");
	raw_add_number(&path, (uint64_t)owned->number);
	path.bytes[path.size] = 0;
	long file = RAW4(SYS_openat, AT_FDCWD, path.bytes, owned->flags | O_CLOEXEC, 0);
	if (file < 0) {
		return false;
	}
	long moved = RAW3(SYS_dup3, file, owned->number, owned->is_kept_on_exec ? 0 : O_CLOEXEC);
	RAW1(SYS_close, file);
	return moved >= 0 && RAW3(SYS_lseek, owned->number, owned->offset, SEEK_SET) >= 0;
}

static int open_service(const char *path, int flags)
{
	long file = RAW4(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0);

	return file < 0 ? -1 : reprise_lift((int)file);
}

void snapshot_kernel_start(void)
{
	process_signals_restore();
	RAW2(SYS_set_robust_list, snapshot->kernel.robust_list, snapshot->kernel.robust_size);
	for (size_t i = 0; i < snapshot->kernel.owned_count; i++) {
		if (snapshot->kernel.owned[i].offset >= 0 && !reopen(&snapshot->kernel.owned[i])) {
			reprise_recycle(ipc_Recycle_Descriptors, "a file that was open at the snapshot cannot be opened again");
		}
	}
	if (!snapshot_rewinds()) {
		return;
	}
	for (size_t i = 0; i < snapshot->kernel.owned_count; i++) {
		snapshot->kernel.owned_copies[i] =
		    (int)RAW3(SYS_fcntl, snapshot->kernel.owned[i].number, F_DUPFD_CLOEXEC, ipc_SERVICE_DESCRIPTOR);
	}
	snapshot->kernel.pagemap = open_service("/proc/self/pagemap", O_RDONLY);
	snapshot->kernel.statm = open_service("/proc/self/statm", O_RDONLY);
	snapshot->kernel.task_directory = open_service("/proc/self/task", O_RDONLY | O_DIRECTORY);
	snapshot->kernel.descriptor_directory = open_service("/proc/self/fd", O_RDONLY | O_DIRECTORY);
	snapshot->kernel.working_directory = open_service(".", O_PATH | O_DIRECTORY);
	snapshot->kernel.descriptors = count_descriptors();
	if (snapshot->kernel.pagemap < 0 || snapshot->kernel.statm < 0 || snapshot->kernel.task_directory < 0
	    || snapshot->kernel.descriptors <= 0 || snapshot->kernel.working_directory < 0) {
		reprise_recycle(ipc_Recycle_Kernel, "/proc/self cannot be read");
	}
}

/* Puts the offset and the flags back, and removes locks. */
static bool restore_file(const struct owned *owned)
{
	struct flock none = {.l_type = F_UNLCK};

	RAW3(SYS_fcntl, owned->number, F_SETLK, &none);
	RAW2(SYS_flock, owned->number, LOCK_UN);
	return RAW3(SYS_fcntl, owned->number, F_SETFL, owned->flags) >= 0
	       && RAW3(SYS_lseek, owned->number, owned->offset, SEEK_SET) >= 0;
}

void snapshot_kernel_restore(void)
{
	if (snapshot->notes.dirty & DIRTY_ATTRIBUTES) {
		reprise_recycle(ipc_Recycle_Attributes, snapshot->notes.culprit);
	}
	if ((snapshot->image.is_passed_by || (snapshot->notes.dirty & DIRTY_PASSED_BY))
	    && !interpose_attributes_are_right()) {
		reprise_recycle(ipc_Recycle_Attributes, "a request changed limits, priorities or its name");
	}
	if (process_has_left_timers()) {
		reprise_recycle(ipc_Recycle_Timers, "a request made a timer");
	}
	RAW1(SYS_umask, snapshot->kernel.umask);
	if (RAW1(SYS_fchdir, snapshot->kernel.working_directory) < 0) {
		reprise_recycle(ipc_Recycle_Descriptors, "the working directory is gone");
	}
	process_timers_stop();
	if ((snapshot->notes.dirty & DIRTY_SIGNALS) || has_pending_signals()) {
		process_signals_restore();
	}
	restore_descriptors();
	for (size_t i = 0; i < snapshot->kernel.owned_count; i++) {
		struct owned *owned = &snapshot->kernel.owned[i];
		if (owned->offset >= 0 && !restore_file(owned)) {
			reprise_recycle(ipc_Recycle_Descriptors, "a file of the snapshot is gone");
		}
	}
}
