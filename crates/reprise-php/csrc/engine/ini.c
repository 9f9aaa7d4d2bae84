/* PHP's table of settings: EG(ini_directives). */
#include <php.h>
#include <php_ini.h>

#include "ini.h"

static zend_ini_entry *find(const char *name, size_t size)
{
	return zend_hash_str_find_ptr(EG(ini_directives), name, size);
}

bool engine_ini_exists(const char *name, size_t size)
{
	return find(name, size) != NULL;
}

void engine_each_ini(void (*each)(const zend_string *name, void *context), void *context)
{
	zend_string *name;

	ZEND_HASH_FOREACH_STR_KEY(EG(ini_directives), name)
	{
		if (name) {
			each(name, context);
		}
	}
	ZEND_HASH_FOREACH_END();
}

bool engine_ini_lock(const char *name, size_t size)
{
	zend_ini_entry *entry = find(name, size);

	if (entry) {
		entry->modifiable = ZEND_INI_SYSTEM;
	}
	return entry != NULL;
}

bool engine_ini_is_per_directory(const char *name, size_t size)
{
	const zend_ini_entry *entry = find(name, size);

	return entry && (entry->modifiable & ZEND_INI_PERDIR);
}
