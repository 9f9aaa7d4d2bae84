/*
 * Options from the supervisor. Every user can read the command line, so they come in a sealed memory file.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "options.h"

struct reprise_options reprise_options = {
    .name = "", .control = -1, .lifeline = -1, .phar = -1, .userfaultfd = -1, .data_file = -1, .data_store = -1};

/* Error levels as in php.ini: E_ALL & ~E_DEPRECATED. */
static bool is_levels(const char *at)
{
	bool names_one = false;

	for (;;) {
		at += strspn(at, " ~!");
		size_t word = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
		if (word == 0) {
			return false;
		}
		names_one = names_one || strncmp(at, "E_", 2) == 0;
		at += word + strspn(at + word, " ");
		if (*at == 0) {
			return names_one;
		}
		if (!strchr("&|^", *at++)) {
			return false;
		}
	}
}

/* Appends name="value" to the ini text. The quotes keep every value as it was written. PHP has to read error levels, so
 * these have no quotes. */
bool reprise_add_ini(const char *pair)
{
	const char *equals = strchr(pair, '=');
	size_t old = reprise_options.ini ? strlen(reprise_options.ini) : 0;
	/* Each byte at most doubled, quotes, line end. */
	char *text = realloc(reprise_options.ini, old + 2 * strlen(pair) + 8);

	if (!text) {
		return false;
	}
	reprise_options.ini = text;
	if (!equals || equals == pair || strchr(pair, '\n')) {
		fprintf(stderr, "reprise-php: an ini setting must be NAME=VALUE on one line: %s\n", pair);
		return false;
	}
	char *at = text + old;
	memcpy(at, pair, equals - pair + 1);
	at += equals - pair + 1;
	if (is_levels(equals + 1)) {
		sprintf(at, "%s\n", equals + 1);
		return true;
	}
	*at++ = '"';
	for (const char *from = equals + 1; *from; from++) {
		if (*from == '"' || *from == '\\' || *from == '$') {
			*at++ = '\\';
		}
		*at++ = *from;
	}
	memcpy(at, "\"\n", 3);
	return true;
}

static bool append(const char ***list, size_t *count, const char *text)
{
	const char **grown = realloc(*list, (*count + 1) * sizeof **list);

	if (!grown) {
		return false;
	}
	grown[(*count)++] = text;
	*list = grown;
	return true;
}

static bool choose_isolation(const char *word)
{
	static const char *const words[] = ipc_ISOLATIONS;

	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		if (i != ipc_Isolation_WorkerMode && strcmp(word, words[i]) == 0) {
			reprise_options.isolation = (enum ipc_Isolation)i;
			return true;
		}
	}
	return false;
}

static bool set_ini(const char *pair)
{
	return reprise_add_ini(pair) && append(&reprise_options.set, &reprise_options.set_count, pair);
}

static bool lock_ini(const char *pair)
{
	return reprise_add_ini(pair) && append(&reprise_options.locked, &reprise_options.locked_count, pair);
}

static bool except_from_watch(const char *directory)
{
	return append(&reprise_options.watch_except, &reprise_options.watch_except_count, directory);
}

/* A number that is not too large for its target. */
static bool number(const char *text, uint64_t most, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && errno == 0 && *value <= most;
}

enum kind { TEXT, DESCRIPTOR, NUMBER_32, NUMBER, SWITCH };

static const struct {
	const char *name;
	enum kind kind;
	void *to;
} settings[] = {
    {"name", TEXT, &reprise_options.name},
    {"release", TEXT, &reprise_options.release},
    {"generation", NUMBER_32, &reprise_options.generation},
    {"control", DESCRIPTOR, &reprise_options.control},
    {"lifeline", DESCRIPTOR, &reprise_options.lifeline},
    {"userfaultfd", DESCRIPTOR, &reprise_options.userfaultfd},
    {"needs", TEXT, &reprise_options.needs},
    {"php-ini", TEXT, &reprise_options.php_ini},
    {"file-cache", TEXT, &reprise_options.file_cache},
    {"warmup", TEXT, &reprise_options.warmup},
    {"error-page", TEXT, &reprise_options.error_page},
    {"hosts", TEXT, &reprise_options.hosts},
    {"phar", DESCRIPTOR, &reprise_options.phar},
    {"phar-path", TEXT, &reprise_options.phar_path},
    {"data", DESCRIPTOR, &reprise_options.data_file},
    {"data-address", NUMBER, &reprise_options.data_address},
    {"data-size", NUMBER, &reprise_options.data_size},
    {"data-wait", NUMBER, &reprise_options.data_wait},
    {"data-staleness", NUMBER, &reprise_options.data_staleness},
    {"store", DESCRIPTOR, &reprise_options.data_store},
    {"max-requests", NUMBER, &reprise_options.max_requests},
    {"max-age", NUMBER, &reprise_options.max_age},
    {"max-memory-kib", NUMBER, &reprise_options.max_memory_kib},
    {"kept-connections", NUMBER_32, &reprise_options.kept},
    {"kept-networks", TEXT, &reprise_options.kept_networks},
    {"audit", SWITCH, &reprise_options.audits},
    {"scrub", SWITCH, &reprise_options.scrubs},
    {"watch", SWITCH, &reprise_options.watches},
    {"measure", SWITCH, &reprise_options.measures},
};

/* Those that do more than set an option. */
static const struct {
	const char *name;
	bool (*take)(const char *value);
} taken[] = {
    {"ini", set_ini},
    {"admin-ini", lock_ini},
    {"isolation", choose_isolation},
    {"watch-except", except_from_watch},
};

static bool set(enum kind kind, void *to, const char *value)
{
	uint64_t read;

	switch (kind) {
	case TEXT: *(const char **)to = value; return true;
	case DESCRIPTOR: {
		bool is_one = number(value, 1 << 20, &read);
		*(int *)to = is_one ? (int)read : -1;
		return is_one;
	}
	case NUMBER_32: {
		bool fits = number(value, UINT32_MAX, &read);
		*(uint32_t *)to = (uint32_t)read;
		return fits;
	}
	case NUMBER: return number(value, UINT64_MAX, to);
	case SWITCH: *(bool *)to = true; return !*value;
	}
	return false;
}

/* One setting, NAME=VALUE. The text stays. */
static bool take_setting(const char *setting)
{
	size_t size = strcspn(setting, "=");
	const char *value = setting + size + (setting[size] == '=');

	for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
		if (strlen(settings[i].name) == size && memcmp(settings[i].name, setting, size) == 0
		    && set(settings[i].kind, settings[i].to, value)) {
			return true;
		}
	}
	for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
		if (strlen(taken[i].name) == size && memcmp(taken[i].name, setting, size) == 0 && taken[i].take(value)) {
			return true;
		}
	}
	/* Its value may be a secret. */
	fprintf(stderr, "reprise-php: the supervisor sent an invalid setting: %.*s\n", (int)size, setting);
	return false;
}

/* Options in a memory file. A zero byte follows each. */
bool reprise_read_settings(int file)
{
	struct stat status;

	if (fstat(file, &status) != 0 || status.st_size < 0) {
		fprintf(stderr, "reprise-php: the settings cannot be opened: %s\n", strerror(errno));
		return false;
	}
	size_t size = (size_t)status.st_size, used = 0;
	char *text = malloc(size + 1);
	while (text && used < size) {
		ssize_t count = pread(file, text + used, size - used, (off_t)used);
		if (count <= 0) {
			break;
		}
		used += (size_t)count;
	}
	if (file > STDERR_FILENO) {
		close(file);
	}
	if (!text || used < size) {
		fputs("reprise-php: the settings cannot be read\n", stderr);
		return false;
	}
	text[size] = 0;
	for (const char *at = text; at < text + size; at += strlen(at) + 1) {
		if (!take_setting(at)) {
			return false;
		}
	}
	return true;
}
