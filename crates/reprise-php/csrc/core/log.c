/*
 * Lines of the server's log. A line is written by one call, or by several if it is long; each part says whether another
 * follows. No call writes more than a pipe takes at once, so lines of several workers do not mix. The first byte tells
 * the supervisor that it is a message of this kind, and process/src/lines.rs joins its parts. There is no place to
 * report that the log cannot be written.
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
#include "ipc.h"

const char *reprise_log_level(unsigned number)
{
	static const char *const levels[] = ipc_LEVELS;

	return levels[number % (sizeof levels / sizeof *levels)];
}

static const char message_mark[] = {ipc_MESSAGE_MARK, 0};

/* This runs on the service stack, where libc's time zones may not be used. */
static void add_time(struct raw_text *text)
{
	struct timespec now = {0};
	uint8_t digits[20];
	char time[sizeof digits + 2] = "";

	RAW2(SYS_clock_gettime, CLOCK_REALTIME, &now);
	ipc_timestamp((uint64_t)now.tv_sec, &digits);
	for (size_t i = 0; i < sizeof digits; i++) {
		time[i] = (char)digits[i];
	}
	time[sizeof digits] = ' ';
	raw_add(text, time);
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

	raw_add(&text, message_mark);
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

/* The part of a message that the next call writes. */
struct part {
	size_t start; /* of its text, behind mark and time */
	size_t size;
	char bytes[PIPE_BUF];
};

static void send_part(struct part *part, bool is_last)
{
	if (!is_last) {
		part->bytes[part->size++] = ipc_MORE_MARK;
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

/* Control characters would split the line, or hide a part of it. */
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

static void send_line(const char *level, const char *about, const char *format, va_list arguments)
{
	struct raw_text start = {0};
	struct part part;
	char text[8192], mark[64];

	raw_add(&start, message_mark);
	begin(&start, level);
	memcpy(part.bytes, start.bytes, start.size);
	part.start = part.size = start.size;
	int wanted = vsnprintf(text, sizeof text, format, arguments);
	if (wanted < 0) {
		return;
	}
	add_escaped(&part, text);
	if ((size_t)wanted >= sizeof text) {
		int size = snprintf(mark, sizeof mark, " [cut: %zu more bytes]", (size_t)wanted - (sizeof text - 1));
		add_text(&part, mark, (size_t)size);
	}
	add_escaped(&part, about);
	send_part(&part, true);
}

void reprise_log_line(const char *level, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	send_line(level, "", format, arguments);
	va_end(arguments);
}

void reprise_log_about(const char *about, const char *level, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	send_line(level, about, format, arguments);
	va_end(arguments);
}
