/* Descriptors of reprise-php itself are kept out of the way of the application's. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

#include "descriptors.h"
#include "raw.h"
#include "ipc.h"

int reprise_lift(int descriptor)
{
	long lifted = RAW3(SYS_fcntl, descriptor, F_DUPFD_CLOEXEC, ipc_SERVICE_DESCRIPTOR);

	if (lifted < 0) {
		RAW3(SYS_fcntl, descriptor, F_SETFD, FD_CLOEXEC);
		return descriptor;
	}
	RAW1(SYS_close, descriptor);
	return (int)lifted;
}
