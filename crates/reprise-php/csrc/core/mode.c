/* Whether this process runs a worker script, and how far that is. It holds for as long as the process lives. */
#include "mode.h"

static bool is_worker_mode, has_begun;

void reprise_run_worker_mode(void)
{
	is_worker_mode = true;
}

void reprise_loop_begins(void)
{
	has_begun = true;
}

bool reprise_is_worker_mode(void)
{
	return is_worker_mode;
}

bool reprise_worker_mode_has_begun(void)
{
	return has_begun;
}
