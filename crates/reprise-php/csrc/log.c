/*
 * Lines of the server's log. Each is written in one call, or a long one in several that say so, and no call writes more
 * than a pipe takes at once: lines of several workers do not mix. The supervisor tells such messages by their first
 * byte from whatever else is written to standard error, and puts them together (lines.rs). A log that cannot be written
 * has nowhere to be reported.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "log.h"
#include "options.h"
#include "raw.h"

/* The same as in lines.rs. */
#define MESSAGE "\x1e"
#define MORE '\x1f'

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

	RAW2(SYS_clock_gettime, CLOCK_REALTIME, &now);
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
	raw_add_number(text, (uint64_t)RAW0(SYS_getpid));
	raw_add(text, "] ");
	raw_add(text, reprise_options.name);
	raw_add(text, ": ");
}

void reprise_service_log(const char *level, const char *what, const char *detail)
{
	struct raw_text text = {0};

	raw_add(&text, MESSAGE);
	begin(&text, level);
	raw_add(&text, what);
	if (detail) {
		raw_add(&text, ": ");
		raw_add(&text, detail);
	}
	text.size = text.size < sizeof text.bytes ? text.size : sizeof text.bytes - 1;
	text.bytes[text.size++] = '\n';
	RAW3(SYS_write, STDERR_FILENO, text.bytes, text.size);
}

/* A message in the making: what is written at once. */
struct part {
	size_t start; /* of its text */
	size_t size;
	char bytes[PIPE_BUF];
};

static void send_part(struct part *part, bool is_last)
{
	if (!is_last) {
		part->bytes[part->size++] = MORE;
	}
	part->bytes[part->size++] = '\n';
	(void)!write(STDERR_FILENO, part->bytes, part->size);
	part->size = part->start;
}

static void add_text(struct part *part, const char *text, size_t size)
{
	if (part->size + size > sizeof part->bytes - 2) {
		send_part(part, false);
	}
	memcpy(part->bytes + part->size, text, size);
	part->size += size;
}

/* Control characters would make several lines of it, or hide some. */
static void add_escaped(struct part *part, const char *text)
{
	for (; *text; text++) {
		unsigned char byte = (unsigned char)*text;
		char escaped[8];

		if (byte >= ' ' && byte != 0x7f) {
			add_text(part, text, 1);
		} else if (byte == '\n' || byte == '\t' || byte == '\r') {
			add_text(part, byte == '\n' ? "\\n" : byte == '\t' ? "\\t" : "\\r", 2);
		} else {
			snprintf(escaped, sizeof escaped, "\\x%02x", byte);
			add_text(part, escaped, 4);
		}
	}
}

void reprise_log_line(const char *level, const char *format, ...)
{
	struct raw_text start = {0};
	struct part part;
	char text[8192], mark[64];
	va_list arguments;

	raw_add(&start, MESSAGE);
	begin(&start, level);
	memcpy(part.bytes, start.bytes, start.size);
	part.start = part.size = start.size;
	va_start(arguments, format);
	int wanted = vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	if (wanted < 0) {
		return;
	}
	add_escaped(&part, text);
	if ((size_t)wanted >= sizeof text) {
		int size = snprintf(mark, sizeof mark, " [cut: %zu more bytes]", (size_t)wanted - (sizeof text - 1));
		add_text(&part, mark, (size_t)size);
	}
	send_part(&part, true);
}
