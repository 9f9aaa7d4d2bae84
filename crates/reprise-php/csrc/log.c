/*
 * Lines of the server's log, each written in one call so that lines of several workers do not mix. A log that cannot be
 * written has nowhere to be reported.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "raw.h"
#include "reprise.h"

static void add_padded(struct raw_text *text, unsigned number)
{
	if (number < 10) {
		raw_add(text, "0");
	}
	raw_add_number(text, number);
}

/* 2026-01-31T12:00:00Z, without libc's time zones. Days to a date as in Howard Hinnant's civil_from_days. */
static void add_time(struct raw_text *text)
{
	struct timespec now = {0};

	raw2(SYS_clock_gettime, CLOCK_REALTIME, &now);
	uint64_t days = (uint64_t)now.tv_sec / 86400, seconds = (uint64_t)now.tv_sec % 86400;
	uint64_t shifted = days + 719468;
	uint64_t era = shifted / 146097, day_of_era = shifted % 146097;
	uint64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
	uint64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
	uint64_t shifted_month = (5 * day_of_year + 2) / 153;
	uint64_t month = shifted_month < 10 ? shifted_month + 3 : shifted_month - 9;

	raw_add_number(text, year_of_era + era * 400 + (month <= 2 ? 1 : 0));
	raw_add(text, "-");
	add_padded(text, (unsigned)month);
	raw_add(text, "-");
	add_padded(text, (unsigned)(day_of_year - (153 * shifted_month + 2) / 5 + 1));
	raw_add(text, "T");
	add_padded(text, (unsigned)(seconds / 3600));
	raw_add(text, ":");
	add_padded(text, (unsigned)(seconds / 60 % 60));
	raw_add(text, ":");
	add_padded(text, (unsigned)(seconds % 60));
	raw_add(text, "Z ");
}

static void begin(struct raw_text *text, const char *level)
{
	add_time(text);
	raw_add(text, level);
	raw_add(text, " php[");
	raw_add_number(text, (uint64_t)raw0(SYS_getpid));
	raw_add(text, "] ");
	raw_add(text, reprise_options.name);
	raw_add(text, ": ");
}

void reprise_service_log(const char *level, const char *what, const char *detail)
{
	struct raw_text text = {0};

	begin(&text, level);
	raw_add(&text, what);
	if (detail) {
		raw_add(&text, ": ");
		raw_add(&text, detail);
	}
	text.size = text.size < sizeof text.bytes ? text.size : sizeof text.bytes - 1;
	text.bytes[text.size++] = '\n';
	raw3(SYS_write, STDERR_FILENO, text.bytes, text.size);
}

void reprise_log_line(const char *level, const char *format, ...)
{
	struct raw_text start = {0};
	char line[8192];
	va_list arguments;

	begin(&start, level);
	memcpy(line, start.bytes, start.size);
	va_start(arguments, format);
	int wanted = vsnprintf(line + start.size, sizeof line - start.size - 1, format, arguments);
	va_end(arguments);
	size_t used = start.size + (wanted < 0 ? 0 : (size_t)wanted);
	used = used > sizeof line - 2 ? sizeof line - 2 : used;
	line[used++] = '\n';
	(void)!write(STDERR_FILENO, line, used);
}
