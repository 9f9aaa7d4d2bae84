/*
 * Settings that differ between requests, as under PHP-FPM: sections [HOST=…] and [PATH=…] of php.ini, and `.user.ini`
 * files from the document root down to the script's directory. And settings of `admin_ini`, which no code may change.
 *
 * A worker keeps the settings of a directory's .user.ini files for user_ini.cache_ttl seconds. A snapshot and a worker
 * script have the settings of their boot: their requests read no file.
 */
#define _GNU_SOURCE
#include <php.h>
#include <php_ini.h>
#include <php_variables.h>
#include <SAPI.h>

#include <string.h>
#include <time.h>

#include "../engine/ini.h"
#include "../core/log.h"
#include "names.h"
#include "../core/options.h"
#include "settings.h"
#include "../core/snapshot_state.h"
#include "../core/head.h"
#include "../core/mode.h"

/* Directories whose settings are kept. When there are more, all are dropped. */
#define MAX_DIRECTORIES 1024

struct directory_settings {
	time_t expires;
	HashTable settings; /* persistent: name => value */
};

static HashTable directories; /* persistent: path => struct directory_settings */

static void free_directory(zval *value)
{
	struct directory_settings *directory = Z_PTR_P(value);

	zend_hash_destroy(&directory->settings);
	pefree(directory, 1);
}

static struct directory_settings *find_directory(const char *path, size_t size)
{
	struct directory_settings *directory = zend_hash_str_find_ptr(&directories, path, size);

	if (directory) {
		return directory;
	}
	if (zend_hash_num_elements(&directories) >= MAX_DIRECTORIES) {
		zend_hash_clean(&directories);
	}
	directory = pemalloc(sizeof *directory, 1);
	directory->expires = 0;
	zend_hash_init(&directory->settings, 0, NULL, config_zval_dtor, 1);
	return zend_hash_str_add_ptr(&directories, path, size, directory);
}

/* From the document root down, so that the nearest file wins. Of a script outside the root, its own directory alone. */
static void read_user_files(HashTable *settings, char *path, size_t size, const char *root)
{
	size_t root_size = strlen(root);

	while (root_size > 0 && root[root_size - 1] == '/') {
		root_size--;
	}
	bool is_below = size > root_size && strncmp(path, root, root_size) == 0 && path[root_size] == '/';
	for (char *slash = path + (is_below ? root_size : size - 1); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		php_parse_user_ini_file(path, engine_user_ini_filename(), settings);
		*slash = '/';
	}
}

static void activate_user_files(char *path, size_t size)
{
	struct directory_settings *directory = find_directory(path, size);
	const char *root = reprise_variable(ZEND_STRL("DOCUMENT_ROOT"));
	time_t now = time(NULL);

	if (now >= directory->expires) {
		zend_hash_clean(&directory->settings);
		read_user_files(&directory->settings, path, size, root ? root : "");
		directory->expires = now + engine_user_ini_cache_ttl();
	}
	php_ini_activate_config(&directory->settings, PHP_INI_PERDIR, PHP_INI_STAGE_HTACCESS);
}

static void activate_host(void)
{
	const char *host = reprise_variable(ZEND_STRL("SERVER_NAME"));

	if (host && php_ini_has_per_host_config()) {
		/* The front sends it in lower case. */
		php_ini_activate_per_host_config(host, strlen(host));
	}
}

/* sapi_module.activate: PHP knows the request, and has not read its body. */
int request_activate_settings(void)
{
	const char *script = SG(request_info).path_translated;
	const char *slash = script ? strrchr(script, '/') : NULL;
	bool has_user_files = engine_user_ini_filename() != NULL;
	char path[MAXPATHLEN];

	if (!slash || snapshot->image.is_taken || reprise_worker_mode_has_begun()) {
		return SUCCESS;
	}
	activate_host();
	size_t size = (size_t)(slash - script) + 1;
	if ((has_user_files || php_ini_has_per_dir_config()) && size < sizeof path) {
		memcpy(path, script, size);
		path[size] = 0;
		php_ini_activate_per_dir_config(path, size);
		if (has_user_files) {
			activate_user_files(path, size);
		}
	}
	return SUCCESS;
}

/* When PHP has started. From here on no code may change a setting of `admin_ini`. */
bool request_lock_settings(void)
{
	zend_hash_init(&directories, 0, NULL, free_directory, 1);
	for (size_t i = 0; i < reprise_options.locked_count; i++) {
		const char *name = reprise_options.locked[i];
		size_t size = strcspn(name, "=");
		if (!engine_ini_lock(name, size) && !request_has_setting(name, size)) {
			const char *nearest = request_nearest_setting(name, size);
			reprise_log_line("error", "admin_ini: PHP has no setting '%.*s'%s%s%s; is its extension loaded?", (int)size,
			                 name, nearest ? ", the nearest is '" : "", nearest ? nearest : "", nearest ? "'" : "");
			return false;
		}
	}
	return true;
}
