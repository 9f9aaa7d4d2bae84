/*
 * libc's generators: rand() and random(), which are the same generator, and drand48() with its relatives. PHP seeds its
 * own generators, and extensions seed these from the time or not at all.
 *
 * The linker prefers these functions to libc's, as in dirty.h. The first draw in a request of a snapshot, or in a
 * worker, seeds the generator from the kernel. So a request that draws no number pays nothing. A seed that the
 * application has set stays. The flags are ordinary memory, so a rewind puts them back together with the generators.
 *
 * dlsym() with a library's handle, as FFI uses it, finds libc's functions and none of these. So from the first dlopen()
 * of the application on, both generators are seeded at the beginning of each request.
 *
 * arc4random() and its relatives ask the kernel. Libraries that were built for libbsd, whose version has a state, get
 * these, too.
 */
#define _GNU_SOURCE

#include <sys/random.h>

#include "dirty.h"
#include "random_libc.h"

static bool random_is_seeded, rand48_is_seeded;
static bool is_passed_by;

static void set_random(unsigned seed)
{
	NEXT(srandom)
	random_is_seeded = true;
	known(seed);
}

static unsigned short *set_rand48(unsigned short seed[3])
{
	NEXT(seed48)
	rand48_is_seeded = true;
	return known(seed);
}

static void seed_random(void)
{
	unsigned seed;

	if (!random_is_seeded) {
		arc4random_buf(&seed, sizeof seed);
		set_random(seed);
	}
}

static void seed_rand48(void)
{
	unsigned short seed[3];

	if (!rand48_is_seeded) {
		arc4random_buf(seed, sizeof seed);
		set_rand48(seed);
	}
}

void interpose_random_libc_seed(void)
{
	seed_random();
	seed_rand48();
}

void interpose_random_libc_forget(void)
{
	random_is_seeded = rand48_is_seeded = false;
}

void interpose_random_libc_renew(void)
{
	if (is_passed_by) {
		interpose_random_libc_seed();
	}
}

void interpose_random_libc_is_passed_by(void)
{
	is_passed_by = true;
	interpose_random_libc_seed();
}

/* Functions that draw a number. */
#define DRAW(type, name, seed)                                                                                         \
	PUBLIC type name(void)                                                                                             \
	{                                                                                                                  \
		NEXT(name)                                                                                                     \
		seed();                                                                                                        \
		return known();                                                                                                \
	}

DRAW(int, rand, seed_random)
DRAW(long, random, seed_random)
DRAW(double, drand48, seed_rand48)
DRAW(long, lrand48, seed_rand48)
DRAW(long, mrand48, seed_rand48)

/* Functions by which the application sets a seed. setstate() is not among them: it may go back to a state of the boot.
 */
PUBLIC void srand(unsigned seed)
{
	set_random(seed);
}

PUBLIC void srandom(unsigned seed)
{
	set_random(seed);
}

PUBLIC char *initstate(unsigned seed, char *state, size_t size)
{
	NEXT(initstate)
	random_is_seeded = true;
	return known(seed, state, size);
}

PUBLIC void srand48(long seed)
{
	NEXT(srand48)
	rand48_is_seeded = true;
	known(seed);
}

PUBLIC unsigned short *seed48(unsigned short seed[3])
{
	return set_rand48(seed);
}

PUBLIC void lcong48(unsigned short parameters[7])
{
	NEXT(lcong48)
	rand48_is_seeded = true;
	known(parameters);
}

PUBLIC void arc4random_buf(void *bytes, size_t size)
{
	while (size > 0) {
		ssize_t got = getrandom(bytes, size, 0);
		size -= got > 0 ? (size_t)got : 0;
		bytes = (char *)bytes + (got > 0 ? got : 0);
	}
}

PUBLIC uint32_t arc4random(void)
{
	uint32_t drawn;

	arc4random_buf(&drawn, sizeof drawn);
	return drawn;
}

/* Numbers above the last multiple of the limit are drawn again: they would make some results likelier. */
PUBLIC uint32_t arc4random_uniform(uint32_t limit)
{
	uint32_t drawn, least = limit > 1 ? -limit % limit : 0;

	do {
		drawn = arc4random();
	} while (drawn < least);
	return limit > 1 ? drawn % limit : 0;
}
