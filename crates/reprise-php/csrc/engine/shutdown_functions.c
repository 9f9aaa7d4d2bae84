/* Shutdown functions of a worker script. See shutdown_functions.h. */
#include <php.h>
#include <ext/standard/basic_functions.h>

#include "shutdown_functions.h"

static HashTable *kept;

void reprise_shutdown_functions_keep(void)
{
	kept = BG(user_shutdown_function_names);
	BG(user_shutdown_function_names) = NULL;
}

void reprise_shutdown_functions_restore(void)
{
	HashTable *later = BG(user_shutdown_function_names);
	php_shutdown_function_entry *entry;

	if (!kept) {
		return;
	}
	BG(user_shutdown_function_names) = kept;
	if (later) {
		ZEND_HASH_FOREACH_PTR(later, entry)
		{
			zend_hash_next_index_insert_ptr(kept, entry);
		}
		ZEND_HASH_FOREACH_END();
		later->pDestructor = NULL;
		zend_hash_destroy(later);
		FREE_HASHTABLE(later);
	}
}
