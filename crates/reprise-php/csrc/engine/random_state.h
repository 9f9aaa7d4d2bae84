/* The seeds of PHP's own generators. A generator without a seed takes one from the kernel. */
#ifndef REPRISE_RANDOM_STATE_H
#define REPRISE_RANDOM_STATE_H

#include <php.h>
#include <ext/random/php_random.h>

static inline void engine_forget_seeds(void)
{
	RANDOM_G(mt19937_seeded) = false;
	RANDOM_G(combined_lcg_seeded) = false;
}

#endif
