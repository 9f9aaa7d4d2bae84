/*
 * libc's generators: rand() and random(), which are one, and drand48() with its kin. Unlike PHP's own they are seeded
 * by nobody, or from the time.
 *
 * The executable's versions come before libc's, as in dirty.h. Whoever draws first in a request of a snapshot, or in a
 * worker, draws from a seed of the kernel's. So a request that draws nothing pays nothing. A seed that the code has
 * given itself stays: the notes of that are ordinary memory, which a rewind puts back with the generators.
 *
 * Who asks dlsym() for a library's symbols (FFI with a library's name) finds libc's own version and none of these. From
 * the first dlopen() of the application on the generators are therefore seeded at once, for each request.
 *
 * arc4random() and its kin are the kernel's here, also for libraries that were built for libbsd's, which has a state.
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

void reprise_random_libc_seed(void)
{
	seed_random();
	seed_rand48();
}

void reprise_random_libc_forget(void)
{
	random_is_seeded = rand48_is_seeded = false;
}

void reprise_random_libc_renew(void)
{
	if (is_passed_by) {
		reprise_random_libc_seed();
	}
}

void reprise_random_libc_is_passed_by(void)
{
	is_passed_by = true;
	reprise_random_libc_seed();
}

/* Draws: name, type, parameters and arguments. */
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

/* Seeds of the code's own. setstate() gives none: it goes back to what was, maybe the boot's. */
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

/* What is above the last multiple of the limit would make some numbers likelier. */
PUBLIC uint32_t arc4random_uniform(uint32_t limit)
{
	uint32_t drawn, least = limit > 1 ? -limit % limit : 0;

	do {
		drawn = arc4random();
	} while (drawn < least);
	return limit > 1 ? drawn % limit : 0;
}
