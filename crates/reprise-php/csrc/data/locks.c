/*
 * reprise_cache_lock(): a lease that its owner takes by name. It ends with the request, with the process, or when its
 * time is over.
 */
#define _GNU_SOURCE
#include <php.h>

#include "arguments.h"
#include "cluster.h"
#include "clock.h"
#include "../core/data_state.h"

enum { MINE = 0, OWN = 1 };

static unsigned ask_lock(const zend_string *name, double seconds, struct data_cache_Leased *leased)
{
	return data_cache_lease(&reprise_data->process, (const uint8_t *)ZSTR_VAL(name), ZSTR_LEN(name), 1, data_now(),
	                        (uint64_t)(seconds * 1000), leased);
}

ZEND_FUNCTION(reprise_cache_lock)
{
	zend_string *name;
	double seconds = 30;
	struct data_cache_Leased leased;

	ZEND_PARSE_PARAMETERS_START(1, 2)
	Z_PARAM_STR(name)
	Z_PARAM_OPTIONAL
	Z_PARAM_DOUBLE(seconds)
	ZEND_PARSE_PARAMETERS_END();
	if (!data_key(name, 1)) {
		RETURN_THROWS();
	}
	if (!(seconds > 0 && seconds <= DATA_MOST_SECONDS)) {
		zend_argument_value_error(2, "must be more than 0 and at most %d seconds", DATA_MOST_SECONDS);
		RETURN_THROWS();
	}
	if (!reprise_data->is_attached || ask_lock(name, seconds, &leased) != MINE) {
		RETURN_FALSE;
	}
	if (data_cluster_lock(name, (uint64_t)(seconds * 1000)) == CLUSTER_HELD) {
		data_cache_release(&reprise_data->process, &leased);
		RETURN_FALSE;
	}
	RETURN_TRUE;
}

ZEND_FUNCTION(reprise_cache_unlock)
{
	zend_string *name;
	struct data_cache_Leased leased;

	ZEND_PARSE_PARAMETERS_START(1, 1)
	Z_PARAM_STR(name)
	ZEND_PARSE_PARAMETERS_END();
	if (!data_key(name, 1)) {
		RETURN_THROWS();
	}
	if (!reprise_data->is_attached) {
		RETURN_FALSE;
	}
	/* Who asks for a lock that nobody has gets it, and gives it back. */
	unsigned lease = ask_lock(name, 0.001, &leased);
	if (lease == OWN) {
		data_cluster_unlock(name);
	}
	bool is_released = (lease == MINE || lease == OWN) && data_cache_release(&reprise_data->process, &leased);
	RETURN_BOOL(lease == OWN && is_released);
}
