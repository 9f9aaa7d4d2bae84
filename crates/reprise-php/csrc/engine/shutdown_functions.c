/* Shutdown functions of a worker script. See shutdown_functions.h. */
#include <php.h>
#include <ext/standard/basic_functions.h>
#include <zend_closures.h>

#include "shutdown_functions.h"

static HashTable *kept;

void engine_shutdown_functions_keep(void)
{
	kept = BG(user_shutdown_function_names);
	BG(user_shutdown_function_names) = NULL;
}

void engine_shutdown_functions_restore(void)
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

void engine_shutdown_function_add(zif_handler handler)
{
	static zend_internal_arg_info no_arguments[1];
	static zend_internal_function function = {
	    .type = ZEND_INTERNAL_FUNCTION,
	    .arg_info = &no_arguments[1],
	};
	php_shutdown_function_entry entry = {0};
	zval closure;

	if (!function.function_name) {
		function.function_name = zend_string_init(ZEND_STRL("reprise_cache"), true);
		GC_MAKE_PERSISTENT_LOCAL(function.function_name);
	}
	function.handler = handler;
	zend_create_closure(&closure, (zend_function *)&function, NULL, NULL, NULL);
	if (zend_fcall_info_init(&closure, 0, &entry.fci, &entry.fci_cache, NULL, NULL) == SUCCESS) {
		append_user_shutdown_function(&entry);
	} else {
		zval_ptr_dtor(&closure);
	}
}
