/* The clock of the data cache. */
#define _GNU_SOURCE
#include <time.h>

#include "clock.h"

uint64_t data_now(void)
{
	struct timespec now = {0};

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}
