/* See included_paths.h. */
#include <php.h>

#include "included_paths.h"
#include "wrap.h"

static struct {
	uintptr_t at;
	size_t size;
} memory;

static zend_op_array *(*next_compile)(zend_file_handle *, int);
static zend_string *(*next_resolve)(zend_string *);
static zif_handler next_function;

static bool is_there(const zend_string *string)
{
	return string && (uintptr_t)string - memory.at < memory.size;
}

static zend_string *copy(const zend_string *from)
{
	return zend_string_init(ZSTR_VAL(from), ZSTR_LEN(from), false);
}

/* Whoever has opened the file releases its name; that of an interned string is no count. */
static zend_op_array *compile(zend_file_handle *file, int type)
{
	if (is_there(file->filename)) {
		file->filename = copy(file->filename);
	}
	if (is_there(file->opened_path)) {
		file->opened_path = copy(file->opened_path);
	}
	return next_compile(file, type);
}

static zend_string *resolve(zend_string *path)
{
	if (!is_there(path)) {
		return next_resolve(path);
	}
	zend_string *own = copy(path), *resolved = next_resolve(own);
	zend_string_release(own);
	return resolved;
}

/* It calls opcache's compiler, not the hook. */
static void opcache_compile_file(INTERNAL_FUNCTION_PARAMETERS)
{
	zval *path = ZEND_NUM_ARGS() > 0 ? ZEND_CALL_ARG(execute_data, 1) : NULL;

	if (path && Z_TYPE_P(path) == IS_STRING && is_there(Z_STR_P(path))) {
		ZVAL_STR(path, copy(Z_STR_P(path)));
	}
	next_function(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

void engine_included_paths_copy(uintptr_t at, size_t size)
{
	memory.at = at;
	memory.size = size;
	next_compile = zend_compile_file;
	zend_compile_file = compile;
	next_resolve = zend_resolve_path;
	zend_resolve_path = resolve;
	engine_wrap_function("opcache_compile_file", opcache_compile_file, &next_function);
}

void engine_each_included(void (*each)(const zend_string *path))
{
	zend_string *path;

	ZEND_HASH_FOREACH_STR_KEY(&EG(included_files), path)
	{
		if (path) {
			each(path);
		}
	}
	ZEND_HASH_FOREACH_END();
}
