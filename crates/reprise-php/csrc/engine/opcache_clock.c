/*
 * The time that opcache keeps. opcache takes the time of a request when the request begins. By that time it decides
 * whether a file is too new to be cached, and whether to look for changes. In a snapshot the time would stand still. It
 * is in opcache's globals, which are private. opcache's ini settings point to these globals. So a boot begins at a time
 * that occurs nowhere else, and the word with that time is opcache's.
 */
#define _GNU_SOURCE
#include <php.h>
#include <php_ini.h>
#include <SAPI.h>

#include <time.h>

#include "../snapshot/template.h"
#include "opcache_clock.h"

/* A time that occurs nowhere else. */
#define STRANGE_TIME 1400000003.0

static zend_result tell_strange_time(double *time)
{
	*time = STRANGE_TIME;
	return SUCCESS;
}

static time_t *opcache_clock;

void reprise_opcache_clock_watch(void)
{
	sapi_module.get_request_time = tell_strange_time;
}

void reprise_opcache_clock_find(void)
{
	zend_ini_entry *entry = zend_hash_str_find_ptr(EG(ini_directives), ZEND_STRL("opcache.file_update_protection"));
	time_t *found = NULL;

	sapi_module.get_request_time = NULL;
	SG(global_request_time) = 0;
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

void reprise_opcache_clock_renew(void)
{
	if (opcache_clock) {
		*opcache_clock = (time_t)sapi_get_request_time();
	}
}
