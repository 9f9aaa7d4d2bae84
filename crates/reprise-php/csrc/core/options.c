/*
 * Options from the supervisor. Every user can read the command line, so options that may be secret come in a memory
 * file.
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

bool reprise_append(const char ***list, size_t *count, const char *text)
{
	const char **grown = realloc(*list, (*count + 1) * sizeof **list);

	if (!grown) {
		return false;
	}
	grown[(*count)++] = text;
	*list = grown;
	return true;
}

static bool lock_ini(const char *pair)
{
	return reprise_append(&reprise_options.locked, &reprise_options.locked_count, pair);
}

/* One setting, OPTION=VALUE. The text stays. */
static bool take_setting(const char *setting)
{
	static const char ini[] = "ini=", admin[] = "admin-ini=", warmup[] = "warmup=", page[] = "error-page=";

	if (strncmp(setting, ini, sizeof ini - 1) == 0) {
		setting += sizeof ini - 1;
		return reprise_add_ini(setting) && reprise_append(&reprise_options.set, &reprise_options.set_count, setting);
	}
	if (strncmp(setting, admin, sizeof admin - 1) == 0) {
		return reprise_add_ini(setting + sizeof admin - 1) && lock_ini(setting + sizeof admin - 1);
	}
	if (strncmp(setting, warmup, sizeof warmup - 1) == 0) {
		reprise_options.warmup = setting + sizeof warmup - 1;
		return true;
	}
	if (strncmp(setting, page, sizeof page - 1) == 0) {
		reprise_options.error_page = setting + sizeof page - 1;
		return true;
	}
	fputs("reprise-php: the supervisor sent an invalid setting\n", stderr);
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
