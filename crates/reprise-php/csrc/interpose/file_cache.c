/*
 * The file cache of a release lies in a directory that the application's user can only read: who could write there
 * could put machine-made code into PHP. PHP 8.5 has a setting for that. Before, opcache asks once, when it reads its
 * setting, whether it may write to the directory, and uses no file cache otherwise (php-src:
 * ext/opcache/zend_accelerator_module.c, OnUpdateFileCache). So while PHP starts, the question whether this one
 * directory can be written is taken for whether it can be read. Nothing becomes writable by that: what opcache tries to
 * write afterwards the kernel refuses, and opcache goes on without it, as it does when the disk is full.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <php_version.h>

#include "file_cache.h"
#include "../core/options.h"
#include "dirty.h"

/* NULL: nobody is asked about another directory than it says. */
static const char *starting_with;

bool interpose_file_cache_use(const char *directory)
{
	char pair[4096];
	int size = snprintf(pair, sizeof pair, "opcache.file_cache=%s", directory);

	if (size < 0 || (size_t)size >= sizeof pair || !reprise_add_ini(pair)) {
		return false;
	}
#if PHP_VERSION_ID >= 80500
	return reprise_add_ini("opcache.file_cache_read_only=1");
#else
	starting_with = directory;
	return true;
#endif
}

void interpose_file_cache_started(void)
{
	starting_with = NULL;
}

#ifndef __SANITIZE_ADDRESS__

PUBLIC int access(const char *path, int mode)
{
	if (starting_with && (mode & W_OK) && strcmp(path, starting_with) == 0) {
		mode &= ~W_OK;
	}
	return (int)result(RAW3(SYS_faccessat, AT_FDCWD, path, mode));
}

#endif
