/*
 * Where a worker is in its PHP code. Its forker writes the call frames of the worker (engine/frames.c) into a file, and
 * sends the file to the supervisor. This runs on any stack: raw system calls only.
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "../data/waits.h"
#include "../engine/frames.h"
#include "forker.h"
#include "../core/raw.h"
#include "trace.h"
#include "ipc.h"
#include "../core/forker_link.h"
#include "../core/forker_state.h"

void process_forker_trace(struct forker *forker, pid_t pid)
{
	struct ipc_FromForker traced = {.tag = ipc_FromForker_Traced, .traced = {.pid = pid}};
	long file = RAW2(SYS_memfd_create, "reprise-trace", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (file >= 0 && process_forker_has(forker, pid)) {
		data_write_wait((int)file, pid);
		engine_write_frames((int)file, pid);
	}
	reprise_forker_tell_with(forker, &traced, (int)file);
	if (file >= 0) {
		RAW1(SYS_close, (int)file);
	}
}
