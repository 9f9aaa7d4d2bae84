/*
 * A template. The prototype forks it. It boots one entry script with a synthetic request up to reprise_snapshot(). From
 * then on it only forks clones, and never serves a request. It holds opcache's usage lock, so opcache does not restart
 * and wipe the shared memory that its clones and the classic workers use.
 *
 * A boot that fails writes its reason to the log, and ends the process with wire_Exit_NotBooted.
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
#include "../bodies.h"
#include "../engine/last_error.h"
#include "../engine/opcache_clock.h"
#include "../engine/request_state.h"
#include "../forker.h"
#include "../loaded.h"
#include "../log.h"
#include "../options.h"
#include "../overtime.h"
#include "../raw.h"
#include "../request.h"
#include "../variables.h"
#include "../worker.h"
#include "../worker_mode/worker_mode.h"
#include "clone.h"
#include "end.h"
#include "kernel.h"
#include "learn.h"
#include "needs.h"
#include "random.h"
#include "refuse.h"
#include "snapshot.h"
#include "take.h"
#include "template.h"
#include "wire.h"

struct snapshot_state *snapshot;

static const struct forker_methods methods = {
    .fork_worker = reprise_clone_fork,
    .tell = reprise_loaded_tell,
    .place_is_free = reprise_hooks_offer,
};

void reprise_boot_failed(const char *why, const char *detail)
{
	reprise_log_line("error", "%s cannot be booted: %s%s%s", reprise_head_text(reprise_head()->script), why,
	                 detail ? "; " : "", detail ? detail : "");
	_exit(wire_Exit_NotBooted);
}

/* On the service stack, when the script has called reprise_snapshot(). Takes the snapshot, then forks until it drains.
 */
void reprise_template_loop(void)
{
	struct forker *forker = reprise_forker;
	struct wire_FromForker ready = {.tag = wire_FromForker_TemplateReady};
	const char *why = NULL;

	reprise_block_signals();
	/* Locks that the boot has taken end with it, as those of a request do, and what it has got is copied. */
	reprise_data_end_request();
	if (!reprise_take(&why)) {
		reprise_service_log("error", "the snapshot cannot be taken", why);
		RAW1(SYS_exit_group, wire_Exit_NotBooted);
	}
	if (!reprise_clone_try()) {
		RAW1(SYS_exit_group, wire_Exit_NotBooted);
	}
	/* Other processes of the application's user may not look into it from here on. */
	RAW2(SYS_prctl, PR_SET_DUMPABLE, 0);
	ready.template_ready.isolation = snapshot->isolation;
	ready.template_ready.is_for_one_host = snapshot->is_per_host;
	reprise_describe_bodies_of_boot(&ready.template_ready.bodies);
	int code = wire_Exit_Internal;
	if (reprise_forker_start(forker) >= 0) {
		reprise_forker_tell(forker, &ready);
		code = reprise_forker_run(forker);
	}
	for (;;) {
		RAW1(SYS_exit_group, code);
	}
}

static void choose_isolation(enum wire_Isolation wanted)
{
	char needs[REPRISE_NEEDS];

	snapshot->isolation = wanted == wire_Isolation_Fork ? wire_Isolation_Fork : reprise_options.isolation;
	if (snapshot->isolation == wire_Isolation_Fork) {
		return;
	}
	/* Where trying ends the process, the supervisor has found it out: this process does not try. */
	bool may_try = !reprise_options.needs || strcmp(reprise_options.needs, REPRISE_NEEDS_KILLED) != 0;
	if (may_try && reprise_try_needs(needs, sizeof needs)) {
		snapshot->isolation = wire_Isolation_Rewind;
		return;
	}
	if (snapshot->isolation == wire_Isolation_Rewind) {
		reprise_boot_failed("isolation = \"rewind\" is not possible here", "`reprise check` says why");
	}
	if (may_try && reprise_options.needs && strcmp(reprise_options.needs, needs) != 0) {
		reprise_log_line("notice",
		                 "isolation fork, a process per request: what a rewind needs has changed since the last start "
		                 "or reload (%s); `reprise check` says why",
		                 needs);
	}
	snapshot->isolation = wire_Isolation_Fork;
}

static void read_head(int file)
{
	ssize_t size = pread(file, reprise_worker->head, sizeof reprise_worker->head, 0);

	if (size < (ssize_t)sizeof(struct wire_RequestHead)) {
		reprise_log_line("error", "the head of the boot request cannot be read");
		_exit(wire_Exit_Internal);
	}
}

/* PHP's last error says why a boot ended early, even if php.ini keeps PHP from logging it. */
void reprise_boot_ended(const char *how, bool ran_to_end)
{
	char detail[1024] = "";

	if (ran_to_end) {
		reprise_log_line("error", "%s cannot be booted: %s; mode = \"classic\" for this script ends the attempts",
		                 reprise_head_text(reprise_head()->script), how);
		_exit(wire_Exit_NotAsked);
	}
	if (reprise_last_error()) {
		const char *file = reprise_last_error_file();
		snprintf(detail, sizeof detail, "PHP's last message: %s in %s on line %d", reprise_last_error(),
		         file ? file : "?", reprise_last_error_line());
	}
	reprise_boot_failed(how, *detail ? detail : NULL);
}

/* A request that an error of no file has ended has not run code of the application: PHP cannot continue from the
 * snapshot, and could run the script in classic mode. It counts only until a request of the lane has gone well.
 * Otherwise a visitor could end a lane. */
static bool ended_outside_of_code(void)
{
	const char *error = reprise_last_error(), *file = reprise_last_error_file();

	if (reprise_exit_status() != REPRISE_STATUS_FAILED || !file || !error) {
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
	if (!reprise_lane_is_proved(!ended_outside_of_code())) {
		reprise_log_line("error", "a request cannot continue from the snapshot: %s", reprise_last_error());
		_exit(wire_Exit_NotBooted);
	}
}

/* Boots the script in the template. Each clone continues behind reprise_snapshot(), and ends its request here. */
static _Noreturn void boot(void)
{
	const struct wire_RequestHead *head = reprise_head();
	const char *script = reprise_head_text(head->script);

	volatile bool ran_to_end = false;

	reprise_grow_stack();
	zend_first_try
	{
		reprise_describe_request(head);
		reprise_opcache_clock_watch();
		if (php_request_startup() == SUCCESS) {
			reprise_opcache_clock_find();
			ran_to_end = reprise_run_script(script);
		}
	}
	zend_end_try();
	if (reprise_worker->is_template) {
		reprise_boot_ended("the script ended without calling reprise_snapshot()", ran_to_end);
	}
	reprise_worker->stage = REPRISE_ENDING;
	if (!reprise_worker->is_worker) {
		/* A child that PHP code has forked. */
		php_request_shutdown(NULL);
		_exit(reprise_exit_status());
	}
	reprise_end();
	end_if_unfit();
	/* This does not return: the next request resumes in reprise_snapshot(). */
	setcontext(&snapshot->service);
	_exit(wire_Exit_Unhealthy);
}

static _Noreturn void become_template(struct forker *forker, enum wire_Isolation isolation, int control, int head)
{
	sigset_t none;

	reprise_forker_leave(forker);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || prctl(PR_SET_DUMPABLE, 1) != 0) {
		_exit(wire_Exit_Unhealthy);
	}
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (forker->slab >= 0) {
		close(forker->slab);
		for (size_t i = 0; i < wire_MAX_DOORS; i++) {
			if (forker->eventfds[i] >= 0) {
				close(forker->eventfds[i]);
			}
		}
	}
	*forker = (struct forker){
	    .methods = &methods,
	    .control = control,
	    .lifeline = forker->lifeline,
	    .slab = -1,
	    .watcher = -1,
	    .signals = -1,
	};
	for (size_t i = 0; i < wire_MAX_DOORS; i++) {
		forker->eventfds[i] = -1;
	}
	read_head(head);
	close(head);
	if (reprise_watch_forks() != 0) {
		_exit(wire_Exit_Unhealthy);
	}
	reprise_worker->pid = getpid();
	/* From here on it is not the prototype, whose place in the data cache it must not use. */
	reprise_data_begin(DATA_COPIES, false);
	/* Of the lane's workers before, whose forker is gone. */
	reprise_data_reaped(0);
	if (isolation == wire_Isolation_WorkerMode) {
		reprise_worker_mode_run(forker);
	}
	reprise_worker->is_template = true;
	reprise_overtime_watch();
	reprise_note_descriptors();
	choose_isolation(isolation);
	reprise_random_start();
	boot();
}

long reprise_template_fork(struct forker *forker, enum wire_Isolation isolation, int control, int head)
{
	pid_t parent = getpid();

	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		if (getppid() != parent) {
			_exit(wire_Exit_Unhealthy);
		}
		become_template(forker, isolation, control, head);
	}
	return pid < 0 ? -errno : pid;
}
