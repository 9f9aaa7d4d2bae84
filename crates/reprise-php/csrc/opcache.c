/*
 * What opcache says of itself. Full, or with a restart pending that templates and busy workers keep from coming (they
 * hold its lock), it caches nothing more: then a new generation is asked for, whose opcache is empty.
 */
#define _GNU_SOURCE
#include <php.h>

#include <SAPI.h>
#include <sys/mman.h>

#include "raw.h"
#include "reprise.h"

/* Seconds between two looks of a generation. */
#define LOOK 5
/* Requests of a worker between two looks at the clock. */
#define LOOK_REQUESTS 16
/* Seconds that a generation has served at least when it is renewed for a full opcache: what fills it sooner would fill
 * the next one too. */
#define FULL_AFTER 3600

/* Memory that a look may take of what a script may have. */
#define LOOK_BYTES (1 << 20)

/* opcache_get_status(), which scripts may not be allowed to call. */
static zend_internal_function status_function = {.type = ZEND_INTERNAL_FUNCTION};

/* Shared by the processes of a generation; each word is one store, and a look too many does no harm. */
static struct {
	uint64_t next_look;
	uint64_t full_after;
	uint32_t pending; /* looks in a row that found a restart pending */
	bool full_is_told;
} * shared;

zend_module_entry *reprise_opcache_module(void)
{
	return zend_hash_str_find_ptr(&module_registry, ZEND_STRL("zend opcache"));
}

void reprise_opcache_start(void)
{
	zend_module_entry *module = reprise_opcache_module();

	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED || !module) {
		return;
	}
	shared->full_after = raw_seconds() + FULL_AFTER;
	for (const zend_function_entry *entry = module->functions; entry && entry->fname; entry++) {
		if (strcmp(entry->fname, "opcache_get_status") == 0) {
			status_function.function_name = zend_string_init(entry->fname, strlen(entry->fname), 1);
			status_function.handler = entry->handler;
		}
	}
}

bool reprise_opcache_tells(void)
{
	return status_function.handler && zend_ini_long(ZEND_STRL("opcache.enable"), 0);
}

bool reprise_opcache_status(bool scripts, zval *status)
{
	/* A call frame with one argument. No PHP code runs, and there need not be a request. */
	union {
		zend_execute_data call;
		zval slots[ZEND_CALL_FRAME_SLOT + 1];
	} frame = {0};
	char *allowed = zend_ini_string("opcache.restrict_api", sizeof "opcache.restrict_api" - 1, 0);
	char *path = SG(request_info).path_translated;

	frame.call.func = (zend_function *)&status_function;
	frame.call.prev_execute_data = EG(current_execute_data);
	ZEND_CALL_NUM_ARGS(&frame.call) = 1;
	ZVAL_BOOL(ZEND_CALL_ARG(&frame.call, 1), scripts);
	ZVAL_NULL(status);
	EG(current_execute_data) = &frame.call;
	/* Who is kept from asking are scripts. */
	if (allowed && *allowed) {
		SG(request_info).path_translated = allowed;
	}
	STEP(status_function.handler(&frame.call, status));
	SG(request_info).path_translated = path;
	EG(current_execute_data) = frame.call.prev_execute_data;
	if (Z_TYPE_P(status) != IS_ARRAY) {
		zval_ptr_dtor(status);
		return false;
	}
	return true;
}

static bool says(const zval *status, const char *what, size_t size)
{
	const zval *value = zend_hash_str_find(Z_ARRVAL_P(status), what, size);

	return value && zend_is_true((zval *)value);
}

static void judge(const zval *status)
{
	bool is_pending = says(status, ZEND_STRL("restart_pending"));

	/* Where nobody holds it for long, opcache restarts by itself. */
	shared->pending = is_pending ? shared->pending + 1 : 0;
	if (is_pending && shared->pending > 1) {
		wire_renew(&reprise_worker.wire, wire_RENEW_RESTART);
	} else if (!is_pending && says(status, ZEND_STRL("cache_full"))) {
		if (!shared->full_is_told) {
			shared->full_is_told = true;
			reprise_log_line("warning",
			                 "opcache is full: what it does not hold is compiled for every request; "
			                 "raise opcache.memory_consumption (it is " ZEND_LONG_FMT " MB) or "
			                 "opcache.max_accelerated_files (" ZEND_LONG_FMT ")",
			                 zend_ini_long(ZEND_STRL("opcache.memory_consumption"), 0),
			                 zend_ini_long(ZEND_STRL("opcache.max_accelerated_files"), 0));
		}
		if (raw_seconds() >= shared->full_after) {
			wire_renew(&reprise_worker.wire, wire_RENEW_FULL);
		}
	}
}

/* A request that is about to run out of memory shall not do so here. */
static bool has_memory(void)
{
	return PG(memory_limit) < 0 || zend_memory_usage(true) + LOOK_BYTES < (size_t)PG(memory_limit);
}

void reprise_opcache_look(void)
{
	zval status;

	if (!status_function.handler || !reprise_worker.is_worker || reprise_worker.requests % LOOK_REQUESTS != 1
	    || raw_seconds() < shared->next_look || CG(unclean_shutdown) || !has_memory()) {
		return;
	}
	shared->next_look = raw_seconds() + LOOK;
	if (reprise_opcache_status(false, &status)) {
		judge(&status);
		zval_ptr_dtor(&status);
	}
}
