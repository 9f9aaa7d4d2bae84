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

#include "gmp_random.h"
#include "objects.h"
#include "random_state.h"
#include "../core/log.h"
#include "random.h"
#include "../interpose/random_libc.h"
#include "random_libraries.h"
#include "../core/snapshot_state.h"

void engine_random_share(void)
{
	engine_random_libraries_forget();
	if (engine_random_is_preloaded()) {
		interpose_random_libc_is_passed_by();
		snapshot->notes.dirty |= DIRTY_PASSED_BY;
	}
}

void engine_random_part(void)
{
	interpose_random_libc_forget();
	interpose_random_libc_seed();
}

void engine_random_start(void)
{
	unsigned char byte;

	engine_random_part();
	engine_random_libraries_start();
	/* libc allocates its own state at the first call. It does so before the snapshot. */
	(void)!getrandom(&byte, 1, 0);
	engine_gmp_watch();
}

static void warn_of_engine(const char *class_name)
{
	if (strncmp(class_name, "Random\\Engine\\", 14) == 0 && strcmp(class_name, "Random\\Engine\\Secure") != 0) {
		reprise_log_line("warning",
		                 "an object of %s is held at the snapshot: each request gets the same numbers from it",
		                 class_name);
	}
}

void engine_random_prepare(void)
{
	interpose_random_libc_forget();
	engine_random_libraries_prepare();
	engine_each_class_of_objects(warn_of_engine);
}

void engine_random_renew(void)
{
	interpose_random_libc_renew();
	engine_random_libraries_renew();
	engine_forget_seeds();
	if (engine_gmp_was_used()) {
		zend_long seed;
		arc4random_buf(&seed, sizeof seed);
		engine_gmp_seed(seed & ZEND_LONG_MAX);
	}
}
