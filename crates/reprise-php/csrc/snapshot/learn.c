/*
 * Regular expressions that many requests compile become a part of the snapshot.
 *
 * Under PHP-FPM a process keeps the patterns that it has compiled. A rewind removes them from a clone. WordPress
 * compiles a hundred for /, which takes a millisecond. PCRE allocates memory for their machine code, so no rewind is
 * fast. So clones share memory with their template, and note there which patterns requests have compiled. The template
 * compiles each pattern that two requests have compiled. It does so on PHP's stack, where the boot has stopped. Then it
 * takes another snapshot. Each clone of the older snapshot ends after a request, and a clone of the new one takes its
 * place.
 *
 * A locale that two requests have set is learned with them: the template holds it, so that its files stay mapped
 * (warm.c).
 *
 * That happens when DUE requests have been served, then each time that their number has grown fourfold, and LESSONS
 * times at most. A pattern means the same whenever it is compiled. Of a pattern that only one request has compiled, the
 * shared memory has a hash and no text, because the text may contain data of a visitor.
 *
 * The template reads memory that processes with the application's code have written. It checks all sizes, and passes
 * the text to PCRE alone.
 */
#define _GNU_SOURCE
#include <php.h>

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "../engine/handlers.h"
#include "../engine/patterns.h"
#include "../core/log.h"
#include "../core/options.h"
#include "../core/raw.h"
#include "../process/worker.h"
#include "learn.h"
#include "../core/snapshot_state.h"
#include "take.h"
#include "warm.h"
#include "../core/worker_state.h"

#define DUE 16
#define LESSONS 8
#define MAX_PATTERNS 512
#define MAX_BYTES (64 * 1024)
#define MAX_LOCALES 8
/* So many requests make a locale one that is held. */
#define TWICE 2
/* Clones leave one after the other: each lets so many requests pass for each one before it. */
#define SPREAD 4

struct pattern {
	uint64_t hash;
	uint32_t at, size; /* the text; none before a second request had it */
};

/* Shared by the template and its clones. */
struct lessons {
	_Atomic uint32_t requests;
	_Atomic uint32_t due;
	_Atomic uint32_t given; /* how many snapshots there were before the present one */
	_Atomic bool wanted;
	_Atomic bool is_proved; /* a request went well */
	/* A lock for what follows. No process waits for it: if its holder dies, nothing more is learned, and that is all.
	 */
	_Atomic bool busy;
	uint32_t count, used;
	char locales[MAX_LOCALES][REPRISE_LOCALE]; /* that requests have set */
	uint32_t set[MAX_LOCALES];                 /* how many of them */
	struct pattern patterns[MAX_PATTERNS];
	char bytes[MAX_BYTES];
};

/* How many patterns of PHP's cache belong to the snapshot. */
static uint32_t known;

/* In the template, before the snapshot. Without it nothing is learned. */
void snapshot_learn_prepare(void)
{
	void *shared = mmap(NULL, sizeof(struct lessons), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	known = engine_pattern_count();
	if (shared != MAP_FAILED) {
		snapshot->learned.lessons = shared;
		snapshot->learned.lessons->due = DUE;
	}
}

bool snapshot_lane_is_proved(bool went_well)
{
	struct lessons *lessons = snapshot->learned.lessons;

	if (lessons && went_well && !lessons->is_proved) {
		lessons->is_proved = true;
	}
	return went_well || !lessons || lessons->is_proved;
}

static void note_pattern(const zend_string *text, void *context)
{
	struct lessons *lessons = context;

	/* At the end of a request the locale is that of the snapshot again, in which the template compiles. */
	if (!engine_can_compile_pattern(ZSTR_VAL(text), ZSTR_LEN(text))) {
		return;
	}
	for (uint32_t i = 0; i < lessons->count && i < MAX_PATTERNS; i++) {
		struct pattern *pattern = &lessons->patterns[i];
		if (pattern->hash != ZSTR_H(text)) {
			continue;
		}
		if (pattern->size == 0 && lessons->used <= MAX_BYTES && ZSTR_LEN(text) <= MAX_BYTES - lessons->used) {
			memcpy(lessons->bytes + lessons->used, ZSTR_VAL(text), ZSTR_LEN(text));
			pattern->at = lessons->used;
			pattern->size = (uint32_t)ZSTR_LEN(text);
			lessons->used += pattern->size;
		}
		return;
	}
	if (lessons->count >= MAX_PATTERNS && lessons->used == 0) {
		/* No pattern was compiled twice. */
		lessons->count = 0;
	}
	if (lessons->count < MAX_PATTERNS) {
		lessons->patterns[lessons->count++] = (struct pattern){.hash = ZSTR_H(text)};
	}
}

/* The first place with that name, or a free one. */
static bool note_locale(struct lessons *lessons)
{
	for (size_t i = 0; i < MAX_LOCALES; i++) {
		if (lessons->set[i] == 0) {
			memcpy(lessons->locales[i], snapshot->notes.locale, REPRISE_LOCALE);
		}
		if (strncmp(lessons->locales[i], snapshot->notes.locale, REPRISE_LOCALE) == 0) {
			lessons->set[i] += lessons->set[i] < TWICE;
			return lessons->set[i] == TWICE && !(snapshot->learned.held_locales & 1U << i);
		}
	}
	return false;
}

/* At the end of a request, on PHP's stack. */
void snapshot_learn_note(void)
{
	struct lessons *lessons = snapshot->learned.lessons;

	if (!lessons) {
		return;
	}
	uint32_t requests = atomic_fetch_add(&lessons->requests, 1) + 1;
	bool has_locale = snapshot->notes.locale[0] != 0;
	if ((engine_pattern_count() > known || has_locale) && lessons->given < LESSONS
	    && !atomic_exchange(&lessons->busy, true)) {
		engine_each_pattern(known, note_pattern, lessons);
		bool is_news = has_locale && note_locale(lessons);
		snapshot->notes.locale[0] = 0;
		if ((lessons->used > 0 || is_news) && requests >= lessons->due && !lessons->wanted) {
			lessons->wanted = snapshot->learned.asks = true;
		}
		lessons->busy = false;
	}
}

/* On the service stack of a clone, after a request: whether the clone is to end. It ends when there is a newer
 * snapshot, or so that the template forks again, and takes one before it does. */
bool snapshot_learn_leaves(void)
{
	struct lessons *lessons = snapshot->learned.lessons;

	if (!lessons) {
		return false;
	}
	return snapshot->learned.asks
	       || (lessons->given != snapshot->learned.lesson
	           && snapshot->learned.late++ >= SPREAD * (reprise_worker->slot % REPRISE_LATE));
}

static void say_nothing(int type, zend_string *file, const uint32_t line, zend_string *message)
{
	(void)type;
	(void)file;
	(void)line;
	(void)message;
}

/* In the template, on PHP's stack. */
void snapshot_learn_patterns(void)
{
	const struct lessons *lessons = snapshot->learned.lessons;
	void (*error_cb)(int, zend_string *, const uint32_t, zend_string *) = zend_error_cb;
	zval handler;

	engine_error_handler_hide(&handler);
	zend_error_cb = say_nothing;
	for (uint32_t i = 0; i < lessons->count && i < MAX_PATTERNS; i++) {
		struct pattern pattern = lessons->patterns[i];
		if (pattern.size > 0 && pattern.size <= MAX_BYTES && pattern.at <= MAX_BYTES - pattern.size) {
			engine_compile_pattern(lessons->bytes + pattern.at, pattern.size);
		}
	}
	for (uint32_t i = 0; i < MAX_LOCALES; i++) {
		if (lessons->set[i] >= TWICE && !(snapshot->learned.held_locales & 1U << i)) {
			/* One that cannot be had is not asked for again. */
			(void)snapshot_learn_locale(lessons->locales[i]);
			snapshot->learned.held_locales |= 1U << i;
		}
	}
	known = engine_pattern_count();
	engine_forget_pattern_error();
	zend_error_cb = error_cb;
	engine_error_handler_show(&handler);
}

/* On the service stack of the template, before it forks. If a clone has the lock, the next clone will ask again. */
void snapshot_learn(void)
{
	struct lessons *lessons = snapshot->learned.lessons;
	const char *why = NULL;

	if (!lessons || !lessons->wanted) {
		return;
	}
	if (atomic_exchange(&lessons->busy, true)) {
		lessons->wanted = false;
		return;
	}
	/* Signals stay blocked meanwhile: SIGCHLD of a clone must not get lost. */
	sigset_t mask = snapshot->php.uc_sigmask;
	sigfillset(&snapshot->php.uc_sigmask);
	snapshot->learned.is_learning = true;
	swapcontext(&snapshot->service, &snapshot->php);
	snapshot->learned.is_learning = false;
	snapshot->php.uc_sigmask = mask;
	lessons->count = lessons->used = 0;
	lessons->due = lessons->requests < UINT32_MAX / 4 ? lessons->requests * 4 : UINT32_MAX;
	snapshot->learned.lesson = ++lessons->given;
	lessons->wanted = false;
	lessons->busy = false;
	if (!snapshot_take(&why)) {
		reprise_service_log("error", "the snapshot cannot be taken again", why);
		RAW1(SYS_exit_group, ipc_Exit_NotBooted);
	}
}
