/* See data.h. */
#define _GNU_SOURCE
#include <php.h>
#include <zend_system_id.h>

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../engine/included_paths.h"
#include "../engine/shared_values.h"
#include "../core/log.h"
#include "../core/options.h"
#include "../core/raw.h"
#include "../interpose/interpose.h"
#include "../core/snapshot_state.h"
#include "data.h"
#include "talk.h"
#include "../core/data_state.h"

/* An entry begins with its value. */
static void relocate(uint8_t *entry, ptrdiff_t shift, ptrdiff_t alias)
{
	engine_shared_relocate((zval *)(void *)entry, shift, alias);
}

/* Values are laid out as this build of PHP has them in memory. */
static size_t identity(uint8_t *target, size_t size)
{
	int used = snprintf((char *)target, size, "%s %.32s %s", PHP_VERSION, zend_system_id, REPRISE_VERSION);

	return used < 0 ? 0 : (size_t)used < size ? (size_t)used : size - 1;
}

static int attach(int file)
{
	uint8_t build[64] = {0};

	int failed = data_cache_attach(&reprise_data->process, file, reprise_options.data_address,
	                               reprise_options.data_size, build, identity(build, sizeof build), relocate);
	/* Code of the application must not find it. The mappings stay. */
	close(file);
	return failed;
}

/* The supervisor knows one file for the application, and not that PHP was built anew, or has other extensions that
 * change how it compiles. */
static int make_file(void)
{
	int file = memfd_create("reprise-data", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (file >= 0
	    && (ftruncate(file, (off_t)reprise_options.data_size) != 0
	        || fcntl(file, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW) != 0)) {
		close(file);
		file = -1;
	}
	return file;
}

void data_attach(void)
{
	enum { FOREIGN = 3 };
	static const char *const reasons[] = {
	    "",
	    "its size is none that a segment has",
	    "something else is mapped at its address",
	    "another build of PHP or Reprise made it",
	    "the kernel refuses to map it",
	};

	if (reprise_options.data_file < 0) {
		return;
	}
	int failed = attach(reprise_options.data_file), file;
	if (failed == FOREIGN && (file = make_file()) >= 0) {
		reprise_log_line("notice",
		                 "the data cache is empty, and this generation's alone until the server is restarted: "
		                 "another build of PHP made the values");
		failed = attach(file);
	}
	reprise_data->is_attached = failed == 0;
	clock_gettime(CLOCK_REALTIME, &reprise_data->began);
	if (reprise_data->is_attached) {
		reprise_data->door = reprise_options.data_store > 0 ? reprise_options.data_store : 0;
		data_cache_set_store(&reprise_data->process, reprise_data->door > 0, reprise_options.data_staleness);
		engine_included_paths_copy(reprise_options.data_address, reprise_options.data_size);
	} else {
		reprise_log_line(
		    "error", "the data cache is off in this generation: %s; a reload tries again (docs/guides/data-cache.md)",
		    reasons[failed]);
	}
}

/* All at once is cheaper than a fault for each page. The memory is not the snapshot's, so its first use by a process is
 * no reason to look for written pages. */
static void populate(uintptr_t at, uintptr_t size, bool writes)
{
	if (snapshot->notes.in_request) {
		interpose_populate(at, at + size, writes);
	} else {
		/* If the kernel refuses, the pages come one by one. */
		RAW3(SYS_madvise, at, size, writes ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
	}
}

void data_begin(enum data_use use, bool stays)
{
	reprise_data->use = use;
	if (reprise_data->is_attached) {
		data_cache_begin(&reprise_data->process, stays ? populate : NULL);
	}
}

void data_release(void)
{
	if (reprise_data->is_attached) {
		data_talk_end();
		data_cache_release_all(&reprise_data->process);
	}
}

void data_end_request(void)
{
	if (reprise_data->is_attached) {
		data_talk_end();
		data_cache_end_request(&reprise_data->process);
	}
}

void data_leave(void)
{
	if (reprise_data->is_attached) {
		data_cache_leave(&reprise_data->process);
	}
}

void data_reaped(pid_t pid)
{
	if (reprise_data->is_attached) {
		data_cache_sweep(&reprise_data->process, (uint32_t)pid);
	}
}

static uint32_t before_fork(void)
{
	return reprise_data && reprise_data->is_attached ? data_cache_before_fork(&reprise_data->process) : 0;
}

static void after_fork(uint32_t place, pid_t child)
{
	if (place > 0) {
		data_cache_after_fork(&reprise_data->process, place, child > 0 ? (uint32_t)child : 0);
	}
}

static void in_child(uint32_t place)
{
	if (reprise_data && reprise_data->is_attached) {
		data_talk_leave();
	}
	if (reprise_data && reprise_data->is_attached && !data_cache_in_child(&reprise_data->process, place)) {
		/* It cannot say any longer that it holds values, and their memory may be used again. */
		RAW1(SYS_exit_group, 1);
	}
}

const struct fork_hooks data_fork_hooks = {.before = before_fork, .in_child = in_child, .after = after_fork};

#ifdef __SANITIZE_ADDRESS__
static uint32_t place_of_child;

void data_fork_begins(void)
{
	place_of_child = before_fork();
}

void data_fork_ended(void)
{
	in_child(place_of_child);
}
#else
void data_fork_begins(void)
{
}

void data_fork_ended(void)
{
}
#endif
