/*
 * The time that opcache keeps. opcache takes the time of a request at its request startup. By that time it decides
 * whether a file is too new to be cached, and whether to look for changes. In a snapshot the time would stand still. It
 * is in opcache's globals, which are private. opcache's ini settings point to these globals. So at the startup of a
 * boot's request, opcache alone is told a time that occurs nowhere else, and the word with that time is opcache's.
 */
#define _GNU_SOURCE
#include <php.h>
#include <php_ini.h>
#include <SAPI.h>

#include <time.h>

#include "opcache_clock.h"
#include "../core/boot_failure.h"

/* A time that occurs nowhere else. */
#define STRANGE_TIME 1400000003.0

static time_t *opcache_clock;
static zend_module_entry *opcache;
static zend_result (*start_opcache)(INIT_FUNC_ARGS);

static zend_result start_at_strange_time(INIT_FUNC_ARGS)
{
	double time = SG(global_request_time);

	SG(global_request_time) = STRANGE_TIME;
	zend_result result = start_opcache(INIT_FUNC_ARGS_PASSTHRU);
	SG(global_request_time) = time;
	return result;
}

void engine_opcache_clock_watch(void)
{
	opcache = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("zend opcache"));
	if (opcache && opcache->request_startup_func) {
		start_opcache = opcache->request_startup_func;
		opcache->request_startup_func = start_at_strange_time;
	}
}

void engine_opcache_clock_find(void)
{
	zend_ini_entry *entry = zend_hash_str_find_ptr(EG(ini_directives), ZEND_STRL("opcache.file_update_protection"));
	time_t *found = NULL;

	if (start_opcache) {
		opcache->request_startup_func = start_opcache;
	}
	if (!entry || !entry->mh_arg2 || !INI_BOOL("opcache.enable")) {
		return;
	}
	for (size_t at = 0; at < 4096; at += sizeof(time_t)) {
		time_t *word = (time_t *)((char *)entry->mh_arg2 + at);
		if (*word == (time_t)STRANGE_TIME) {
			if (found) {
				reprise_boot_failed("opcache's clock was not found: another value of opcache looks like it", NULL);
			}
			found = word;
		}
	}
	if (!found) {
		reprise_boot_failed("opcache's clock was not found", "opcache.enable = 0 avoids this");
	}
	*found = (time_t)sapi_get_request_time();
	opcache_clock = found;
}

void engine_opcache_clock_renew(void)
{
	if (opcache_clock) {
		*opcache_clock = (time_t)sapi_get_request_time();
	}
}
