/*
 * A class in the place of another whose name it takes: reprise_replace_class().
 *
 * A name leads to a class through the table of classes and, for names in compiled code, through a cache that belongs to
 * the string. Both are set. Code that has run before keeps the class that it has found: its own cache is not looked
 * for. In the table the class is an alias, as those of class_alias(): at the end of a request PHP destroys a class
 * where it is declared, and leaves aliases alone. The class that is replaced stays in memory, since $by extends it.
 */
#include <php.h>

#include "../worker.h"

/* Where the table has it. NULL, with an exception: it is no class of the application, or an alias. */
static zval *declared(zend_string *name, uint32_t argument)
{
	zend_class_entry *class = zend_lookup_class(name);
	const uint32_t others = ZEND_ACC_INTERFACE | ZEND_ACC_TRAIT | ZEND_ACC_ENUM;

	if (EG(exception)) {
		return NULL;
	}
	if (class && class->type == ZEND_USER_CLASS && !(class->ce_flags & others)) {
		zend_string *key = zend_string_tolower(class->name);
		zval *entry = zend_hash_find(EG(class_table), key);
		zend_string_release(key);
		bool is_own = zend_string_equals_ci(class->name, name)
		              || (ZSTR_VAL(name)[0] == '\\' && strcasecmp(ZSTR_VAL(class->name), ZSTR_VAL(name) + 1) == 0);
		if (entry && Z_TYPE_INFO_P(entry) == IS_PTR && is_own) {
			return entry;
		}
	}
	zend_argument_value_error(argument, "must be a class of the application by its own name, %s given", ZSTR_VAL(name));
	return NULL;
}

ZEND_FUNCTION(reprise_replace_class)
{
	zend_string *name, *by_name;

	ZEND_PARSE_PARAMETERS_START(2, 2)
	Z_PARAM_STR(name)
	Z_PARAM_STR(by_name)
	ZEND_PARSE_PARAMETERS_END();
	if (!reprise_worker->is_template) {
		zend_throw_error(NULL, "reprise_replace_class() can be called in a boot only, before reprise_snapshot()");
		RETURN_THROWS();
	}
	zval *entry = declared(name, 1), *by_entry = entry ? declared(by_name, 2) : NULL;
	if (!by_entry) {
		RETURN_THROWS();
	}
	zend_class_entry *class = Z_PTR_P(entry), *by = Z_PTR_P(by_entry);
	if (by->parent != class) {
		zend_argument_value_error(2, "must be a class that extends %s, %s given", ZSTR_VAL(class->name),
		                          ZSTR_VAL(by->name));
		RETURN_THROWS();
	}
	if (by->ce_flags & ZEND_ACC_FINAL) {
		zend_argument_value_error(2, "must not be final, as other classes may extend %s", ZSTR_VAL(class->name));
		RETURN_THROWS();
	}
#if PHP_VERSION_ID < 80400
	/* Earlier versions count aliases. */
	if (!(by->ce_flags & ZEND_ACC_IMMUTABLE)) {
		by->refcount++;
	}
#endif
	/* In place: an update would destroy the class. */
	Z_PTR_P(entry) = by;
	Z_TYPE_INFO_P(entry) = IS_ALIAS_PTR;
	if (ZSTR_HAS_CE_CACHE(class->name)) {
		ZSTR_SET_CE_CACHE(class->name, by);
	}
}
