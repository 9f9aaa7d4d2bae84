/*
 * Random numbers. Every clone, and every request after a rewind, would draw the same numbers, because the state of a
 * generator lies in memory. So each generator is seeded anew for each request:
 *
 * engine/random_state.h  PHP's own
 * engine/gmp_random.c    GMP's
 * random_libc.c          libc's
 * random_libraries.c     those of OpenSSL, SQLite, GnuTLS and libuuid
 *
 * An object of a class Random\Engine that the boot has made keeps its seed. A warning in the log says so.
 *
 * All of this runs on PHP's stack.
 */
#define _GNU_SOURCE
#include <php.h>

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "../engine/gmp_random.h"
#include "../engine/objects.h"
#include "../engine/random_state.h"
#include "../log.h"
#include "random.h"
#include "random_libc.h"
#include "random_libraries.h"
#include "snapshot.h"

bool reprise_random_is_preloaded(void)
{
	static const char *const settings[] = {"opcache.preload", "ffi.preload"};

	for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
		const char *files = zend_ini_string(settings[i], strlen(settings[i]), 0);
		if (files && *files) {
			return true;
		}
	}
	return false;
}

void reprise_random_share(void)
{
	reprise_random_libraries_forget();
	if (reprise_random_is_preloaded()) {
		reprise_random_libc_is_passed_by();
		snapshot->dirty |= DIRTY_PASSED_BY;
	}
}

void reprise_random_part(void)
{
	reprise_random_libc_forget();
	reprise_random_libc_seed();
}

void reprise_random_start(void)
{
	unsigned char byte;

	reprise_random_part();
	reprise_random_libraries_start();
	/* libc allocates its own state at the first call. It does so before the snapshot. */
	(void)!getrandom(&byte, 1, 0);
	reprise_gmp_watch();
}

static void warn_of_engine(const char *class_name)
{
	if (strncmp(class_name, "Random\\Engine\\", 14) == 0 && strcmp(class_name, "Random\\Engine\\Secure") != 0) {
		reprise_log_line("warning",
		                 "an object of %s is held at the snapshot: each request gets the same numbers from it",
		                 class_name);
	}
}

void reprise_random_prepare(void)
{
	reprise_random_libc_forget();
	reprise_random_libraries_prepare();
	reprise_each_class_of_objects(warn_of_engine);
}

void reprise_random_renew(void)
{
	reprise_random_libc_renew();
	reprise_random_libraries_renew();
	reprise_forget_seeds();
	if (reprise_gmp_was_used()) {
		zend_long seed;
		arc4random_buf(&seed, sizeof seed);
		reprise_gmp_seed(seed & ZEND_LONG_MAX);
	}
}
