/*
 * Whether files that a boot has loaded have changed since. Without `watch` nothing follows from that by itself, so the
 * log and the status say that a reload is needed. What classic mode loads is not looked at: PHP does that, as
 * opcache.validate_timestamps says.
 *
 * The paths lie in memory that a lane's workers share with the process that forks them. Where the boot ends, a template
 * writes them there, or the first worker of a worker script. Workers that have no request look at a few of them, once a
 * second in the whole lane; busy ones do so after some requests. The process that forks them asks what was found when
 * the supervisor pings it. So a look takes some ten system calls a second from a lane, and none from a request.
 *
 * A file has changed if its ctime is later than the end of the boot: that also finds what keeps an old mtime (cp -p,
 * rsync -t). A file that is missing may be about to be written again.
 *
 * One worker looks at a time: if a file system does not respond, one worker of the lane waits for it. If that worker is
 * killed then, nothing is looked at any more, and that is all. Workers can write what they like to that memory; others
 * read numbers there that they check, and pass a path to the kernel and the log.
 */
#define _GNU_SOURCE
#include <php.h>

#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "../engine/included_paths.h"
#include "forker.h"
#include "loaded.h"
#include "../core/log.h"
#include "../core/options.h"
#include "../core/raw.h"
#include "ipc.h"
#include "../core/forker_link.h"
#include "../core/worker_state.h"
#include "../core/forker_state.h"

/* Files at one look, and bytes of all paths together. Further files are not looked at. */
#define FILES 8
#define MAX_BYTES (256 * 1024 - 64)

enum { EMPTY, BEING_WRITTEN, READY };

static struct loaded {
	_Atomic uint32_t state;
	_Atomic bool is_looked_at;
	_Atomic bool has_changed;
	uint32_t size, next;         /* bytes of the paths; where the next one begins */
	_Atomic uint64_t not_before; /* second of the next look */
	struct timespec end;         /* of the boot */
	char paths[MAX_BYTES];       /* each with a zero byte behind it */
} * loaded;

/* In the process that forks them: the supervisor knows it. */
static bool is_told;

void process_loaded_prepare(void)
{
	/* With `watch` a reload follows by itself; under development the front asks before each request. */
	if (reprise_options.watches || reprise_options.error_page) {
		return;
	}
	void *shared = mmap(NULL, sizeof *loaded, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	loaded = shared == MAP_FAILED ? NULL : shared;
}

static void note_path(const zend_string *path)
{
	if (ZSTR_VAL(path)[0] == '/' && ZSTR_LEN(path) < MAX_BYTES - loaded->size) {
		memcpy(loaded->paths + loaded->size, ZSTR_VAL(path), ZSTR_LEN(path) + 1);
		loaded->size += (uint32_t)ZSTR_LEN(path) + 1;
	}
}

void process_loaded_note(void)
{
	uint32_t expected = EMPTY;

	if (!loaded || !atomic_compare_exchange_strong(&loaded->state, &expected, BEING_WRITTEN)) {
		return;
	}
	clock_gettime(CLOCK_REALTIME, &loaded->end);
	engine_each_included(note_path);
	atomic_store(&loaded->state, READY);
}

void process_loaded_attach(void)
{
	if (loaded && loaded->size <= MAX_BYTES) {
		RAW3(SYS_madvise, loaded, offsetof(struct loaded, paths) + loaded->size, MADV_POPULATE_WRITE);
	}
}

/* A busy worker has no second without a request. */
#define BUSY_LOOKS 32

static bool is_changed(const char *path)
{
	struct stat is = {0};

	if (RAW4(SYS_newfstatat, AT_FDCWD, path, &is, 0) < 0) {
		return false;
	}
	return is.st_ctim.tv_sec > loaded->end.tv_sec
	       || (is.st_ctim.tv_sec == loaded->end.tv_sec && is.st_ctim.tv_nsec > loaded->end.tv_nsec);
}

/* The path behind this one. */
static uint32_t behind(uint32_t at, uint32_t size)
{
	while (at < size && loaded->paths[at]) {
		at++;
	}
	return at + 1 < size ? at + 1 : 0;
}

static void look_at_some(uint32_t size)
{
	uint32_t at = loaded->next < size ? loaded->next : 0;

	for (int i = 0; i < FILES; i++) {
		if (is_changed(loaded->paths + at)) {
			loaded->has_changed = true;
			reprise_service_log(
			    "notice",
			    "a loaded file has changed, and what was loaded goes on serving (hint: `reprise reload`, "
			    "or watch = true)",
			    loaded->paths + at);
			return;
		}
		at = behind(at, size);
		loaded->next = at;
		if (at == 0) {
			return;
		}
	}
}

void process_loaded_look(bool is_idle)
{
	if (!loaded || loaded->state != READY || loaded->has_changed
	    || (!is_idle && reprise_worker->requests % BUSY_LOOKS != 0)) {
		return;
	}
	uint64_t now = raw_seconds();
	uint32_t size = loaded->size;
	if (now < loaded->not_before || size == 0 || size > MAX_BYTES || atomic_exchange(&loaded->is_looked_at, true)) {
		return;
	}
	loaded->not_before = now + 1;
	look_at_some(size);
	loaded->is_looked_at = false;
}

void process_loaded_tell(struct forker *forker)
{
	static const struct ipc_FromForker changed = {.tag = ipc_FromForker_FilesChanged};

	if (loaded && loaded->has_changed && !is_told) {
		is_told = true;
		reprise_forker_tell(forker, &changed);
	}
}
