/* See ask.h. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../core/forker_state.h"
#include "../core/log.h"
#include "ask.h"
#include "data.h"
#include "show.h"
#include "../core/forker_link.h"
#include "clock.h"
#include "../core/data_state.h"

/* Nobody waits longer for an answer. */
#define MOST_SECONDS 10

static void become_answerer(struct forker *forker, pid_t parent)
{
	const struct rlimit time = {MOST_SECONDS, MOST_SECONDS}, none = {0, 0};
	sigset_t all;

	/* Whatever the values do to this process, it has no socket to the supervisor, and ends. It is not dumpable. */
	reprise_forker_leave(forker);
	signal(SIGALRM, SIG_DFL);
	sigemptyset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	alarm(MOST_SECONDS);
	(void)setrlimit(RLIMIT_CPU, &time);
	(void)setrlimit(RLIMIT_CORE, &none);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
		_exit(ipc_Exit_Unhealthy);
	}
}

void data_question(struct forker *forker, int question, int answer)
{
	static const char nothing[] = "failed\nthe data cache is off in this generation; the log says why\nend\n";
	pid_t parent = getpid();

	if (!reprise_data->is_attached) {
		(void)!write(answer, nothing, sizeof nothing - 1);
	} else {
		pid_t pid = fork();
		if (pid == 0) {
			become_answerer(forker, parent);
			data_begin(DATA_COPIES, false);
			data_cache_answer(&reprise_data->process, question, answer, data_now(), data_show);
			data_leave();
			_exit(0);
		}
		if (pid < 0) {
			reprise_log_line("error", "no process can be started to answer a question about the data cache");
		}
	}
	close(question);
	close(answer);
}

void data_tell_counts(struct forker *forker)
{
	struct data_cache_Statistics is;

	if (!reprise_data->is_attached) {
		return;
	}
	data_cache_statistics(&reprise_data->process, data_now(), &is);
	struct ipc_FromForker message = {
	    .tag = ipc_FromForker_DataCounts,
	    .data_counts = {.counts =
	                        {
	                            .hits = is.counted[0],
	                            .misses = is.counted[1],
	                            .stale = is.counted[2],
	                            .stores = is.counted[3],
	                            .waits = is.counted[4],
	                            .computed = is.counted[5],
	                            .evicted = is.evicted,
	                            .refused = is.refused,
	                            .swept = is.swept,
	                            .entries = is.entries,
	                            .bytes = is.live,
	                            .memory = is.size,
	                            .held = is.retired,
	                            .held_ms = is.held_ms,
	                            .has_store = is.has_store,
	                            .store_ready = is.store_ready,
	                            .store_untold = is.store_untold,
	                            .store_requests = is.store_requests,
	                            .store_failures = is.store_failures,
	                            .store_forged = is.store_forged,
	                        }},
	};
	reprise_forker_tell(forker, &message);
}
