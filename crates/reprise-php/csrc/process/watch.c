/*
 * The watcher of a generation: a child of the prototype. Twice a second it looks whether a file that opcache has loaded
 * has changed. It reports a change by a byte in a pipe. It reads opcache's memory, which workers write, so it is a
 * process of its own without the socket to the supervisor. Like the prototype it is not dumpable.
 */
#define _GNU_SOURCE
#include <php.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../engine/opcache_status.h"
#include "forker.h"
#include "../core/log.h"
#include "../core/options.h"
#include "watch.h"
#include "../core/descriptors.h"
#include "../core/forker_link.h"
#include "../core/forker_state.h"

/* Milliseconds between two looks. */
#define LOOK_MS 500
/* After so many looks a change is reported, even if every look has found another change. */
#define MOST_LOOKS 10

/* A file at the last look. */
struct seen {
	struct timespec changed;
	ino_t file;
	off_t size;
};

static struct {
	HashTable files; /* persistent: path => struct seen */
	unsigned looks;  /* since the first change that is not told; 0: there is none */
	bool is_new;     /* this look has found one */
} watch;

static void free_seen(zval *value)
{
	pefree(Z_PTR_P(value), 1);
}

static bool is_excepted(const char *path)
{
	for (size_t i = 0; i < reprise_options.watch_except_count; i++) {
		size_t size = strlen(reprise_options.watch_except[i]);
		if (strncmp(path, reprise_options.watch_except[i], size) == 0 && (path[size] == '/' || path[size] == 0)) {
			return true;
		}
	}
	return false;
}

static bool look_at(const char *path, struct seen *now)
{
	struct stat is;

	/* A file that is missing may be about to be written again. */
	if (stat(path, &is) != 0) {
		return false;
	}
	*now = (struct seen){is.st_mtim, is.st_ino, is.st_size};
	return true;
}

static void note_change(const char *path)
{
	if (watch.looks == 0) {
		reprise_log_line("notice", "%s has changed", path);
		watch.looks = 1;
	}
	watch.is_new = true;
}

static bool is_same(const struct seen *a, const struct seen *b)
{
	return a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec && a->file == b->file
	       && a->size == b->size;
}

/* The file may have changed between its compilation and the first look. With opcache.validate_timestamps opcache knows
 * the time of what it has compiled. */
static void add_file(zend_string *path, const zval *script)
{
	const zval *compiled = zend_hash_str_find(Z_ARRVAL_P(script), ZEND_STRL("timestamp"));
	struct seen now;

	if (is_excepted(ZSTR_VAL(path)) || !look_at(ZSTR_VAL(path), &now)) {
		return;
	}
	if (compiled && Z_TYPE_P(compiled) == IS_LONG && Z_LVAL_P(compiled) != 0
	    && Z_LVAL_P(compiled) != now.changed.tv_sec) {
		note_change(ZSTR_VAL(path));
	}
	zend_hash_str_update_mem(&watch.files, ZSTR_VAL(path), ZSTR_LEN(path), &now, sizeof now);
}

static void add_files_of(zval *status)
{
	zval *scripts, *script;
	zend_string *path;

	scripts = zend_hash_str_find(Z_ARRVAL_P(status), ZEND_STRL("scripts"));
	if (scripts && Z_TYPE_P(scripts) == IS_ARRAY) {
		ZEND_HASH_FOREACH_STR_KEY_VAL(Z_ARRVAL_P(scripts), path, script)
		{
			if (path && Z_TYPE_P(script) == IS_ARRAY && !zend_hash_exists(&watch.files, path)) {
				add_file(path, script);
			}
		}
		ZEND_HASH_FOREACH_END();
	}
}

/* opcache answers only within a request. No other module has to see one. */
static void add_files(void)
{
	zval status;

	engine_opcache_begin_request();
	if (engine_opcache_status(true, &status)) {
		add_files_of(&status);
		zval_ptr_dtor(&status);
	}
	engine_opcache_end_request();
}

static void compare_files(void)
{
	zend_string *path;
	struct seen *seen, now;

	ZEND_HASH_FOREACH_STR_KEY_PTR(&watch.files, path, seen)
	{
		if (look_at(ZSTR_VAL(path), &now) && !is_same(seen, &now)) {
			note_change(ZSTR_VAL(path));
			*seen = now;
		}
	}
	ZEND_HASH_FOREACH_END();
}

/* A change is reported when the next look finds no other: a deployment writes many files. */
static bool is_to_be_told(void)
{
	if (watch.looks == 0 || (watch.is_new && watch.looks < MOST_LOOKS)) {
		watch.looks += watch.looks > 0;
		return false;
	}
	watch.looks = 0;
	return true;
}

static _Noreturn void watch_files(int lifeline, int pipe)
{
	zend_hash_init(&watch.files, 0, NULL, free_seen, 1);
	for (;;) {
		struct pollfd watched = {.fd = lifeline, .events = 0};
		if (poll(&watched, 1, LOOK_MS) > 0) {
			_exit(ipc_Exit_Success);
		}
		watch.is_new = false;
		compare_files();
		add_files();
		if (is_to_be_told() && write(pipe, "c", 1) < 0 && errno != EAGAIN) {
			_exit(ipc_Exit_Success);
		}
	}
}

int process_watch_start(struct forker *forker)
{
	int ends[2];
	pid_t parent = getpid();

	if (!engine_opcache_tells()) {
		return -ENOENT;
	}
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
		return -errno;
	}
	pid_t pid = fork();
	if (pid == 0) {
		sigset_t none;
		reprise_forker_leave(forker);
		close(ends[0]);
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
			_exit(ipc_Exit_Unhealthy);
		}
		watch_files(forker->lifeline, ends[1]);
	}
	int error = pid < 0 ? -errno : 0;
	close(ends[1]);
	if (error) {
		close(ends[0]);
		return error;
	}
	forker->watcher = reprise_lift(ends[0]);
	return 0;
}
