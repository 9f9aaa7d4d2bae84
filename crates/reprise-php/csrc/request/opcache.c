/*
 * Looks whether opcache still caches scripts. It does not when it is full. It does not while a restart is pending, and
 * templates and busy workers delay the restart, because they hold opcache's lock. In both cases this worker asks for a
 * new generation, whose opcache is empty.
 */
#define _GNU_SOURCE
#include <php.h>

#include <SAPI.h>
#include <sys/mman.h>

#include "../engine/opcache_status.h"
#include "../engine/request_state.h"
#include "../core/log.h"
#include "opcache.h"
#include "../core/raw.h"
#include "ipc.h"
#include "../core/worker_state.h"

/* Seconds between two looks of a generation. */
#define LOOK 5
/* Requests of a worker between two looks at the clock. */
#define LOOK_REQUESTS 16
/* Seconds that a generation serves before a full opcache renews it. An application that fills opcache sooner would fill
 * the next one, too. */
#define FULL_AFTER 3600

/* Memory that a look takes, of what the script may have. A request that has less left is not looked at: it would run
 * out of memory here. */
#define LOOK_BYTES (1 << 20)

/* Shared by the processes of a generation, without a lock: each word is one store, and a look too many is harmless. */
static struct {
	uint64_t next_look;
	uint64_t full_after;
	uint32_t pending; /* looks in a row that found a restart pending */
	bool full_is_told;
	uint64_t looks;
} * shared;

void request_opcache_start(void)
{
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED) {
		return;
	}
	shared->full_after = raw_seconds() + FULL_AFTER;
	engine_opcache_find_status();
}

static bool says(const zval *status, const char *what, size_t size)
{
	const zval *value = zend_hash_str_find(Z_ARRVAL_P(status), what, size);

	return value && zend_is_true((zval *)value);
}

static const zval *part(const zval *status, const char *what, size_t size)
{
	const zval *value = zend_hash_str_find(Z_ARRVAL_P(status), what, size);

	return value && Z_TYPE_P(value) == IS_ARRAY ? value : NULL;
}

/* 0 where opcache says none: one that is in a file alone has no memory. */
static uint64_t number(const zval *part, const char *what, size_t size)
{
	const zval *value = part ? zend_hash_str_find(Z_ARRVAL_P(part), what, size) : NULL;

	return value && Z_TYPE_P(value) == IS_LONG && Z_LVAL_P(value) > 0 ? (uint64_t)Z_LVAL_P(value) : 0;
}

/* For `reprise status` and `reprise doctor`. */
static void publish(const zval *status)
{
	const zval *memory = part(status, ZEND_STRL("memory_usage"));
	const zval *strings = part(status, ZEND_STRL("interned_strings_usage"));
	const zval *counts = part(status, ZEND_STRL("opcache_statistics"));
	uint64_t numbers[ipc_OPCACHES] = {0};

	numbers[ipc_Opcache_Looks] = ++shared->looks;
	numbers[ipc_Opcache_Used] = number(memory, ZEND_STRL("used_memory"));
	numbers[ipc_Opcache_Wasted] = number(memory, ZEND_STRL("wasted_memory"));
	numbers[ipc_Opcache_Memory] =
	    numbers[ipc_Opcache_Used] + numbers[ipc_Opcache_Wasted] + number(memory, ZEND_STRL("free_memory"));
	numbers[ipc_Opcache_Strings] = number(strings, ZEND_STRL("used_memory"));
	numbers[ipc_Opcache_StringsMemory] = number(strings, ZEND_STRL("buffer_size"));
	numbers[ipc_Opcache_Scripts] = number(counts, ZEND_STRL("num_cached_scripts"));
	numbers[ipc_Opcache_Keys] = number(counts, ZEND_STRL("num_cached_keys"));
	numbers[ipc_Opcache_MostKeys] = number(counts, ZEND_STRL("max_cached_keys"));
	ipc_saw_opcache(&reprise_worker->ipc, &numbers);
}

static void judge(const zval *status)
{
	bool is_pending = says(status, ZEND_STRL("restart_pending"));

	/* opcache restarts by itself when no process holds its lock. So a restart that is pending for one look is no
	 * reason.
	 */
	shared->pending = is_pending ? shared->pending + 1 : 0;
	if (is_pending && shared->pending > 1) {
		ipc_renew(&reprise_worker->ipc, ipc_RENEW_RESTART);
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
			ipc_renew(&reprise_worker->ipc, ipc_RENEW_FULL);
		}
	}
}

void request_opcache_look(void)
{
	zval status;

	if (!engine_opcache_is_there() || !reprise_worker->is_worker || reprise_worker->requests % LOOK_REQUESTS != 1
	    || raw_seconds() < shared->next_look || engine_is_unclean() || !engine_has_memory(LOOK_BYTES)) {
		return;
	}
	shared->next_look = raw_seconds() + LOOK;
	if (engine_opcache_status(false, &status)) {
		publish(&status);
		judge(&status);
		zval_ptr_dtor(&status);
	}
}
