/*
 * GMP's generator of random numbers. No function and no symbol tells its state. So PHP's functions that use it have a
 * handler in front, which notes the call.
 */
#include <php.h>

#include "gmp_random.h"
#include "wrap.h"

static bool was_used;
static zif_handler bits, range, seed;

static void noting_bits(INTERNAL_FUNCTION_PARAMETERS)
{
	was_used = true;
	bits(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static void noting_range(INTERNAL_FUNCTION_PARAMETERS)
{
	was_used = true;
	range(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static void noting_seed(INTERNAL_FUNCTION_PARAMETERS)
{
	was_used = true;
	seed(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

void engine_gmp_watch(void)
{
	engine_wrap_function("gmp_random_bits", noting_bits, &bits);
	engine_wrap_function("gmp_random_range", noting_range, &range);
	engine_wrap_function("gmp_random_seed", noting_seed, &seed);
}

bool engine_gmp_was_used(void)
{
	return was_used;
}

void engine_gmp_seed(zend_long number)
{
	zval function, argument, unused;

	ZVAL_STRING(&function, "gmp_random_seed");
	ZVAL_LONG(&argument, number);
	ZVAL_UNDEF(&unused);
	call_user_function(NULL, NULL, &function, &unused, 1, &argument);
	zval_ptr_dtor(&function);
	zval_ptr_dtor(&unused);
}
