/* Texts, numbers and clocks for the service stack: see raw.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <time.h>

#include "raw.h"

#if !defined(__x86_64__)
/* Until it is set, it is right for what is rounded up. */
uintptr_t raw_page = 65536;
#endif

void raw_add(struct raw_text *text, const char *string)
{
	while (*string && text->size < sizeof text->bytes) {
		text->bytes[text->size++] = *string++;
	}
}

static void add_digits(struct raw_text *text, uint64_t number, unsigned base)
{
	char digits[24];
	size_t at = sizeof digits;

	digits[--at] = 0;
	do {
		digits[--at] = "0123456789abcdef"[number % base];
		number /= base;
	} while (number);
	raw_add(text, digits + at);
}

void raw_add_number(struct raw_text *text, uint64_t number)
{
	add_digits(text, number, 10);
}

void raw_add_hex(struct raw_text *text, uint64_t number)
{
	raw_add(text, "0x");
	add_digits(text, number, 16);
}

uint64_t raw_number(const char **text)
{
	uint64_t value = 0;

	while (**text >= '0' && **text <= '9') {
		value = value * 10 + (uint64_t)(*(*text)++ - '0');
	}
	return value;
}

uint64_t raw_hex(const char **text)
{
	uint64_t value = 0;

	for (;; (*text)++) {
		char digit = **text;
		if (digit >= '0' && digit <= '9') {
			value = value * 16 + (uint64_t)(digit - '0');
		} else if (digit >= 'a' && digit <= 'f') {
			value = value * 16 + (uint64_t)(digit - 'a' + 10);
		} else {
			return value;
		}
	}
}

static uint64_t nanoseconds_of(clockid_t clock)
{
	struct timespec now = {0};

	RAW2(SYS_clock_gettime, clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t raw_nanoseconds(void)
{
	return nanoseconds_of(CLOCK_MONOTONIC);
}

uint64_t raw_processor_ns(void)
{
	return nanoseconds_of(CLOCK_PROCESS_CPUTIME_ID);
}

long raw_fork_unheard(void)
{
	long pid = raw6(SYS_clone, 0, 0, 0, 0, 0, 0);

	/* An emulator of another processor makes no child without a signal. */
	return pid == -EINVAL ? raw6(SYS_clone, SIGCHLD, 0, 0, 0, 0, 0) : pid;
}

uint64_t raw_seconds(void)
{
	return raw_nanoseconds() / 1000000000u;
}
