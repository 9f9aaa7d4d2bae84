/*
 * Files of uploads that a worker may leave in upload_tmp_dir. PHP makes them while it reads a body, and removes at the
 * end of the request those that the script has not moved. A worker that is killed before that leaves them: the forker
 * that reaps it removes them, as the application's user.
 *
 * All processes of a generation share a table of rows. A row belongs to one worker, from the first file of a request to
 * the worker's next request, or until the forker has seen to it. Its owner is named by the pids of forker and worker,
 * because pids are used again: a forker sees to the rows of a child before it forks another one.
 *
 * A forker trusts no row: any worker of the application can write there. It removes names that PHP gives to temporary
 * files and nothing else, and a symbolic link in the place of such a file goes itself. More files than a row has,
 * longer paths, and workers that find no free row are not noted.
 */
#define _GNU_SOURCE
#include <php.h>
#include <fcntl.h>
#include <rfc1867.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../core/raw.h"
#include "dirty.h"
#include "uploads.h"
#include "../core/worker_state.h"

#define ROWS 256
#define FILES 32
#define LONGEST 256 /* bytes of a path, with the zero at its end */

/* The beginning and the length of the names that PHP gives. */
static const char prefix[] = "/php";
#define NAME_LENGTH (sizeof "/phpXXXXXX" - 1)

struct row {
	_Atomic uint64_t owner; /* 0: free */
	_Atomic uint32_t count;
	char files[FILES][LONGEST];
};

static struct row *rows;
/* The next temporary file that PHP makes is that of an upload. */
static bool is_upload_next;
static int (*next_callback)(unsigned int event, void *event_data, void **extra);

static int note_event(unsigned int event, void *event_data, void **extra)
{
	is_upload_next = event == MULTIPART_EVENT_FILE_START;
	return next_callback ? next_callback(event, event_data, extra) : SUCCESS;
}

void interpose_uploads_start(void)
{
	void *shared = mmap(NULL, ROWS * sizeof(struct row), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (shared != MAP_FAILED) {
		rows = shared;
		next_callback = php_rfc1867_callback;
		php_rfc1867_callback = note_event;
	}
}

static uint64_t owner_of(long forker, long worker)
{
	return (uint64_t)forker << 32 | (uint32_t)worker;
}

/* The row of that owner, or NULL. Nobody: a free one. */
static struct row *find(uint64_t owner)
{
	for (size_t i = 0; i < ROWS; i++) {
		if (atomic_load(&rows[i].owner) == owner) {
			return &rows[i];
		}
	}
	return NULL;
}

static struct row *claim(uint64_t owner)
{
	struct row *row = find(owner);

	for (size_t i = 0; !row && i < ROWS; i++) {
		uint64_t nobody = 0;
		if (atomic_compare_exchange_strong(&rows[i].owner, &nobody, owner)) {
			row = &rows[i];
			atomic_store(&row->count, 0);
		}
	}
	return row;
}

static void note_file(const char *path)
{
	size_t size = strlen(path) + 1;
	struct row *row = size <= LONGEST ? claim(owner_of(getppid(), reprise_worker->pid)) : NULL;
	uint32_t count = row ? atomic_load(&row->count) : FILES;

	if (count < FILES) {
		memcpy(row->files[count], path, size);
		atomic_store(&row->count, count + 1);
		reprise_worker->has_uploads = true;
	}
}

void interpose_uploads_forget(void)
{
	if (!reprise_worker->has_uploads) {
		return;
	}
	struct row *row = find(owner_of(RAW0(SYS_getppid), reprise_worker->pid));
	if (row) {
		atomic_store(&row->owner, 0);
	}
	reprise_worker->has_uploads = false;
}

static bool is_temporary(const char *path, size_t length)
{
	if (path[0] != '/' || length < NAME_LENGTH) {
		return false;
	}
	const char *name = path + length - NAME_LENGTH;
	for (size_t i = 0; i < sizeof prefix - 1; i++) {
		if (name[i] != prefix[i]) {
			return false;
		}
	}
	for (const char *letter = name + sizeof prefix - 1; *letter; letter++) {
		bool is_digit = *letter >= '0' && *letter <= '9', is_small = *letter >= 'a' && *letter <= 'z';
		if (!is_digit && !is_small && !(*letter >= 'A' && *letter <= 'Z')) {
			return false;
		}
	}
	return true;
}

void interpose_uploads_reaped(pid_t worker)
{
	struct row *row = rows ? find(owner_of(RAW0(SYS_getpid), worker)) : NULL;

	if (!row) {
		return;
	}
	uint32_t count = atomic_load(&row->count);
	for (uint32_t i = 0; i < (count < FILES ? count : FILES); i++) {
		/* Nobody may change it between the look and the removal. */
		char path[LONGEST];
		size_t length = 0;
		while (length < LONGEST - 1 && row->files[i][length]) {
			path[length] = row->files[i][length];
			length++;
		}
		path[length] = 0;
		if (is_temporary(path, length)) {
			RAW3(SYS_unlinkat, AT_FDCWD, path, 0);
		}
	}
	atomic_store(&row->owner, 0);
}

PUBLIC int mkstemp(char *path)
{
	NEXT(mkstemp)
	int file = known(path);
	if (file >= 0 && is_upload_next && reprise_worker && reprise_worker->is_worker) {
		note_file(path);
	}
	is_upload_next = false;
	return file;
}
