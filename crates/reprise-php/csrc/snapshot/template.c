/*
 * A template. The prototype forks it. It boots one entry script with a synthetic request up to reprise_snapshot(),
 * which leaves PHP's stack for the service stack (take.c). From then on it only forks clones (process/forker.c), and
 * never serves a request. It holds opcache's usage lock, so opcache does not restart and wipe the shared memory that
 * its clones and the classic workers use. A boot that fails writes its reason to the log, and ends the process with
 * ipc_Exit_NotBooted.
 *
 * Each clone waits for a request on its service stack, resumes
 * PHP where the script called (serve.c), ends the request as PHP-FPM would (end.c), comes back to the service stack and
 * puts all memory and kernel state back (rewind.c, kernel.c), or recycles itself if it cannot prove that it did
 * (prove.c).
 *
 * refuse.c    what may not be open when a snapshot is taken
 * needs.c     what a rewind needs of the kernel
 * held.c      what PHP holds then
 * maps.c      /proc/self/maps: read, compared, put back
 * take.c      the image: all private writable memory, in a sealed memory file
 * clone.c     a worker: its own identity, its loop
 * compact.c   PHP's heap, so that requests write to few pages
 * serve.c     a request into PHP's globals
 * warm.c      what libraries make at their first use
 * learn.c     patterns that requests compile, into the next snapshot
 * end.c       php_request_shutdown without freeing what a rewind frees anyway
 * rewind.c    memory back to the image: hot pages, and what a scan finds
 * kernel.c    descriptors, directory, masks, timers, signals back
 * prove.c     checks after each rewind; audit
 * ways.h     how written pages are found: userfault.c, softdirty.c
 * pages.c, hot.c  single pages: copied, and how often they are written
 * open.c, adopt.c  connections that a clone opens before its first request
 * planted.c   faults that show that the checks work (core/checks.h)
 *
 * Code on the service stack uses raw.h and ipc, writes to service memory only, and calls
 * no function of PHP.
 */
#define _GNU_SOURCE
#include <php.h>
#include <php_main.h>
#include <SAPI.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "../connections/connections.h"
#include "../data/data.h"
#include "../request/bodies.h"
#include "../engine/last_error.h"
#include "../engine/opcache_clock.h"
#include "../engine/request_state.h"
#include "../process/forker.h"
#include "../process/loaded.h"
#include "../core/log.h"
#include "../core/options.h"
#include "../process/overtime.h"
#include "../core/raw.h"
#include "../request/request.h"
#include "clone.h"
#include "end.h"
#include "kernel.h"
#include "learn.h"
#include "needs.h"
#include "../engine/random.h"
#include "refuse.h"
#include "../core/snapshot_state.h"
#include "take.h"
#include "template.h"
#include "ways.h"
#include "ipc.h"
#include "../core/head.h"
#include "../core/boot_failure.h"
#include "../core/forker_link.h"
#include "../core/worker_state.h"
#include "../core/forker_state.h"

static const struct forker_methods methods = {
    .fork_worker = snapshot_clone_fork,
    .tell = process_loaded_tell,
    .place_is_free = connections_hooks_offer,
};

/* On the service stack, when the script has called reprise_snapshot(). Takes the snapshot, then forks until it drains.
 */
void snapshot_template_loop(void)
{
	struct forker *forker = reprise_forker;
	struct ipc_FromForker ready = {.tag = ipc_FromForker_TemplateReady};
	const char *why = NULL;

	snapshot_block_signals();
	/* Locks that the boot has taken end with it, as those of a request do, and what it has got is copied. */
	data_end_request();
	if (!snapshot_take(&why)) {
		reprise_service_log("error", "the snapshot cannot be taken", why);
		RAW1(SYS_exit_group, ipc_Exit_NotBooted);
	}
	if (!snapshot_clone_try()) {
		RAW1(SYS_exit_group, ipc_Exit_NotBooted);
	}
	/* Other processes of the application's user may not look into it from here on. */
	RAW2(SYS_prctl, PR_SET_DUMPABLE, 0);
	ready.template_ready.isolation = snapshot->isolation;
	ready.template_ready.is_for_one_host = snapshot->is_per_host;
	request_describe_bodies_of_boot(&ready.template_ready.bodies);
	int code = ipc_Exit_Internal;
	if (process_forker_start(forker) >= 0) {
		reprise_forker_tell(forker, &ready);
		code = process_forker_run(forker);
	}
	for (;;) {
		RAW1(SYS_exit_group, code);
	}
}

static void choose_isolation(enum ipc_Isolation wanted)
{
	char needs[REPRISE_NEEDS];

	snapshot->isolation = wanted == ipc_Isolation_Fork ? ipc_Isolation_Fork : reprise_options.isolation;
	if (snapshot->isolation == ipc_Isolation_Fork) {
		return;
	}
	/* Where trying ends the process, the supervisor has found it out: this process does not try. */
	bool may_try = !reprise_options.needs || !strstr(reprise_options.needs, REPRISE_NEEDS_KILLED);
	enum ipc_Isolation asked = snapshot->isolation;
	snapshot->isolation = snapshot_best_way(asked, snapshot_try_needs(may_try, needs, sizeof needs));
	snapshot->watch.way =
	    snapshot->isolation == ipc_Isolation_SoftDirty ? &snapshot_by_soft_dirty : &snapshot_by_userfaultfd;
	if (snapshot->isolation == ipc_Isolation_SoftDirty) {
		/* Before the boot: of a large page that is not protected nothing shows. */
		RAW2(SYS_prctl, PR_SET_THP_DISABLE, 1);
	}
	if (snapshot_rewinds()) {
		return;
	}
	if (asked != ipc_Isolation_Auto) {
		static const char *const words[] = ipc_ISOLATIONS;
		char why[64];
		snprintf(why, sizeof why, "isolation = \"%s\" is not possible here", words[asked]);
		reprise_boot_failed(why, "`reprise check` says why");
	}
	if (reprise_options.needs && strcmp(reprise_options.needs, needs) != 0) {
		reprise_log_line("notice",
		                 "isolation fork, a process per request: what a rewind needs has changed since the last start "
		                 "or reload (%s); `reprise check` says why",
		                 needs);
	}
}

/* A request that an error of no file has ended has not run code of the application: PHP cannot continue from the
 * snapshot, and could run the script in classic mode. It counts only until a request of the lane has gone well.
 * Otherwise a visitor could end a lane. */
static bool ended_outside_of_code(void)
{
	const char *error = engine_last_error(), *file = engine_last_error_file();

	if (engine_exit_status() != REPRISE_STATUS_FAILED || !file || !error) {
		return false;
	}
	/* A script cannot be opened, or an exception is thrown where no code runs. Other errors of no file, such as
	 * exhausted memory, belong to the request. */
	static const char not_opened[] = "Failed opening required";
	return strncmp(error, not_opened, sizeof not_opened - 1) == 0 ? strcmp(file, "Unknown") == 0
	                                                              : strcmp(file, "[no active file]") == 0;
}

static void end_if_unfit(void)
{
	if (!snapshot_lane_is_proved(!ended_outside_of_code())) {
		reprise_log_line("error", "a request cannot continue from the snapshot: %s", engine_last_error());
		_exit(ipc_Exit_NotBooted);
	}
}

/* Boots the script in the template. Each clone continues behind reprise_snapshot(), and ends its request here. */
static _Noreturn void boot(void)
{
	const struct ipc_RequestHead *head = reprise_head();
	const char *script = reprise_head_text(head->script);

	volatile bool ran_to_end = false;

	snapshot_grow_stack();
	zend_first_try
	{
		request_describe(head);
		engine_opcache_clock_watch();
		if (php_request_startup() == SUCCESS) {
			engine_opcache_clock_find();
			ran_to_end = request_run_script(script);
		}
	}
	zend_end_try();
	if (reprise_worker->is_template) {
		request_boot_ended("the script ended without calling reprise_snapshot()", ran_to_end);
	}
	reprise_worker->stage = REPRISE_ENDING;
	if (!reprise_worker->is_worker) {
		/* A child that PHP code has forked. */
		php_request_shutdown(NULL);
		_exit(engine_exit_status());
	}
	snapshot_end();
	end_if_unfit();
	/* This does not return: the next request resumes in reprise_snapshot(). */
	setcontext(&snapshot->service);
	_exit(ipc_Exit_Unhealthy);
}

_Noreturn void snapshot_template_run(struct forker *forker, enum ipc_Isolation isolation)
{
	forker->methods = &methods;
	reprise_worker->is_template = true;
	process_overtime_watch();
	snapshot_note_descriptors();
	choose_isolation(isolation);
	engine_random_start();
	boot();
}
