/*
 * Settings that the configuration names and PHP does not have: a name is mistyped, or its extension is not loaded. PHP
 * knows all its settings when its modules have started.
 */
#include <php.h>
#include <php_ini.h>

#include <stdio.h>
#include <string.h>

#include "../engine/ini.h"
#include "../engine/modules.h"
#include "../core/log.h"
#include "names.h"
#include "../core/options.h"

/* The longest name that is compared. */
#define LONGEST 63

/* Edits between two words (Levenshtein). */
static size_t distance(const char *a, size_t a_size, const char *b, size_t b_size)
{
	size_t line[LONGEST + 1];

	for (size_t j = 0; j <= b_size; j++) {
		line[j] = j;
	}
	for (size_t i = 0; i < a_size; i++) {
		size_t diagonal = line[0];
		line[0] = i + 1;
		for (size_t j = 0; j < b_size; j++) {
			size_t best = diagonal + (a[i] != b[j]);
			diagonal = line[j + 1];
			best = best < line[j] + 1 ? best : line[j] + 1;
			line[j + 1] = best < diagonal + 1 ? best : diagonal + 1;
		}
	}
	return line[b_size];
}

struct search {
	const char *name;
	size_t size;
	const char *nearest;
	size_t edits; /* fewer are nearer */
};

static void compare_setting(const zend_string *known, void *context)
{
	struct search *search = context;

	if (ZSTR_LEN(known) > LONGEST) {
		return;
	}
	size_t edits = distance(search->name, search->size, ZSTR_VAL(known), ZSTR_LEN(known));
	if (edits < search->edits) {
		search->edits = edits;
		search->nearest = ZSTR_VAL(known);
	}
}

const char *request_nearest_setting(const char *name, size_t size)
{
	struct search search = {.name = name, .size = size, .edits = size / 3 > 3 ? size / 3 + 1 : 4};

	if (size <= LONGEST) {
		engine_each_ini(compare_setting, &search);
	}
	return search.nearest;
}

bool request_has_setting(const char *name, size_t size)
{
	/* These two are no settings: PHP acts on them when it starts. */
	bool loads =
	    (size == 9 && memcmp(name, "extension", 9) == 0) || (size == 14 && memcmp(name, "zend_extension", 14) == 0);

	return loads || engine_ini_exists(name, size);
}

typedef void reporter(const char *name, int size, const char *nearest);

static void each_unknown(const char **pairs, size_t count, reporter *report)
{
	for (size_t i = 0; i < count; i++) {
		size_t size = strcspn(pairs[i], "=");
		if (!request_has_setting(pairs[i], size)) {
			report(pairs[i], (int)size, request_nearest_setting(pairs[i], size));
		}
	}
}

static void print_unknown(const char *name, int size, const char *nearest)
{
	printf("unknown %.*s %s\n", size, name, nearest ? nearest : "-");
}

/* For `reprise check`, `reprise version` and reloads. PHP may have written messages before the empty line. */
void request_print_settings(bool with_symbols)
{
	putchar('\n');
	engine_print_extensions();
	if (with_symbols) {
		engine_print_symbols();
	}
	each_unknown(reprise_options.set, reprise_options.set_count, print_unknown);
	each_unknown(reprise_options.locked, reprise_options.locked_count, print_unknown);
	fflush(stdout);
}

static void log_unknown(const char *name, int size, const char *nearest)
{
	reprise_log_line("warning",
	                 "ini: PHP has no setting '%.*s'%s%s%s; is the extension loaded that defines it? Scripts see the "
	                 "value by get_cfg_var() alone",
	                 size, name, nearest ? ", the nearest is '" : "", nearest ? nearest : "", nearest ? "'" : "");
}

void request_report_unknown_settings(void)
{
	/* With an unknown setting of `admin_ini` the prototype does not start. */
	each_unknown(reprise_options.set, reprise_options.set_count, log_unknown);
}
