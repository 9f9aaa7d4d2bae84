/* PHP's table of settings. */
#ifndef REPRISE_INI_H
#define REPRISE_INI_H

#include <php.h>
#include <php_ini.h>

#include <stdbool.h>

bool engine_ini_exists(const char *name, size_t size);
/* Calls `each` with the name of every setting. */
void engine_each_ini(void (*each)(const zend_string *name, void *context), void *context);
/* From here on no script and no .user.ini file may change it. False: PHP has no such setting. */
bool engine_ini_lock(const char *name, size_t size);
/* A directory may have a value of its own. */
bool engine_ini_is_per_directory(const char *name, size_t size);

/* Name of the files by which a directory has values of its own. NULL: no directory has. */
static inline const char *engine_user_ini_filename(void)
{
	return PG(user_ini_filename) && *PG(user_ini_filename) ? PG(user_ini_filename) : NULL;
}

static inline zend_long engine_user_ini_cache_ttl(void)
{
	return PG(user_ini_cache_ttl);
}

#endif
