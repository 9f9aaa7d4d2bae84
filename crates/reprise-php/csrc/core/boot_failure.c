/* The end of a boot that cannot be the beginning of requests. */
#include <unistd.h>

#include "boot_failure.h"
#include "head.h"
#include "log.h"
#include "ipc.h"

void reprise_boot_failed(const char *why, const char *detail)
{
	reprise_log_line("error", "%s cannot be booted: %s%s%s", reprise_head_text(reprise_head()->script), why,
	                 detail ? "; " : "", detail ? detail : "");
	_exit(ipc_Exit_NotBooted);
}
