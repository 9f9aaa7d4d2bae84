/*
 * Random numbers, on PHP's stack. State that lies in memory is the same in every clone and after every rewind: so PHP's
 * own generators are seeded anew for each request, and OpenSSL is given a generator without any state, the kernel's.
 * What cannot be reached, engine objects that the boot has made, is reported.
 */
#define _GNU_SOURCE
#include <php.h>

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "../engine/wrap.h"
#include "../engine/objects.h"
#include "../engine/random_state.h"
#include "../log.h"
#include "random.h"
#include "random_libc.h"
#include "random_libraries.h"
#include "snapshot.h"

/* As in OpenSSL's rand.h. */
struct rand_meth_st {
	int (*seed)(const void *, int);
	int (*bytes)(unsigned char *, int);
	void (*cleanup)(void);
	int (*add)(const void *, int, double);
	int (*pseudorand)(unsigned char *, int);
	int (*status)(void);
};

static int take_bytes(unsigned char *bytes, int size)
{
	int have = 0;

	while (have < size) {
		ssize_t got = getrandom(bytes + have, (size_t)(size - have), 0);
		if (got < 0 && errno != EINTR) {
			return 0;
		}
		have += got > 0 ? (int)got : 0;
	}
	return 1;
}

static int ignore_seed(const void *bytes, int size)
{
	return 1;
}

static int ignore_entropy(const void *bytes, int size, double entropy)
{
	return 1;
}

static void no_cleanup(void)
{
}

static int is_ready(void)
{
	return 1;
}

static const struct rand_meth_st kernel_method = {
    .seed = ignore_seed,
    .bytes = take_bytes,
    .cleanup = no_cleanup,
    .add = ignore_entropy,
    .pseudorand = take_bytes,
    .status = is_ready,
};

/* A function of a library that is loaded, whoever has loaded it; NULL if it is not. */
void *reprise_loaded_function(const char *library, const char *name)
{
	void *function = dlsym(RTLD_DEFAULT, name);

	if (!function) {
		void *loaded = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
		if (loaded) {
			function = dlsym(loaded, name);
			dlclose(loaded);
		}
	}
	return function;
}

/* SQLite has one generator for the process, and seeds it from the kernel when it is drawn from and has no seed. Without
 * any at the snapshot, or before workers are forked, each request or worker gets one of its own. */
static void reset_sqlite(void)
{
	void (*randomness)(int, void *);

	*(void **)&randomness = reprise_loaded_function("libsqlite3.so.0", "sqlite3_randomness");
	if (randomness) {
		randomness(0, NULL);
	}
}

/* GMP has its generator behind functions only: whether it was used is seen by wrapping them. */
static bool gmp_was_used;
static zif_handler gmp_bits, gmp_range, gmp_seed;

static void wrapped_gmp_bits(INTERNAL_FUNCTION_PARAMETERS)
{
	gmp_was_used = true;
	gmp_bits(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static void wrapped_gmp_range(INTERNAL_FUNCTION_PARAMETERS)
{
	gmp_was_used = true;
	gmp_range(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static void wrapped_gmp_seed(INTERNAL_FUNCTION_PARAMETERS)
{
	gmp_was_used = true;
	gmp_seed(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

/* Has anything run in the prototype? */
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

/* In the prototype, when PHP's modules have started. */
void reprise_random_share(void)
{
	reset_sqlite();
	if (reprise_random_is_preloaded()) {
		reprise_random_libc_is_passed_by();
		snapshot->dirty |= DIRTY_PASSED_BY;
	}
}

/* In each process that was forked from it. */
void reprise_random_part(void)
{
	reprise_random_libc_forget();
	reprise_random_libc_seed();
}

/* In a new template, before any code of the application. */
void reprise_random_start(void)
{
	int (*set_method)(const struct rand_meth_st *);
	unsigned char byte;

	reprise_random_part();
	reprise_random_libraries_start();
	*(void **)&set_method = dlsym(RTLD_DEFAULT, "RAND_set_rand_method");
	if (set_method) {
		set_method(&kernel_method);
	}
	/* So that what libc sets up for it is there before the snapshot. */
	(void)!getrandom(&byte, 1, 0);
	reprise_wrap_function("gmp_random_bits", wrapped_gmp_bits, &gmp_bits);
	reprise_wrap_function("gmp_random_range", wrapped_gmp_range, &gmp_range);
	reprise_wrap_function("gmp_random_seed", wrapped_gmp_seed, &gmp_seed);
}

static void warn_of_engine(const zend_object *object)
{
	const char *name = ZSTR_VAL(object->ce->name);

	if (strncmp(name, "Random\\Engine\\", 14) == 0 && strcmp(name, "Random\\Engine\\Secure") != 0) {
		reprise_log_line("warning",
		                 "an object of %s is held at the snapshot: each request gets the same numbers from it", name);
	}
}

/* At the snapshot. */
void reprise_random_prepare(void)
{
	reset_sqlite();
	reprise_random_libc_forget();
	reprise_random_libraries_prepare();
	reprise_each_object(warn_of_engine);
}

/* For each request. */
void reprise_random_renew(void)
{
	reprise_random_libc_renew();
	reprise_random_libraries_renew();
	reprise_forget_seeds();
	if (gmp_was_used) {
		zval function, seed, unused;
		zend_long value;
		take_bytes((unsigned char *)&value, sizeof value);
		ZVAL_STRING(&function, "gmp_random_seed");
		ZVAL_LONG(&seed, value & ZEND_LONG_MAX);
		ZVAL_UNDEF(&unused);
		call_user_function(NULL, NULL, &function, &unused, 1, &seed);
		zval_ptr_dtor(&function);
		zval_ptr_dtor(&unused);
	}
}
