/*
 * A class in the place of another whose name it takes: reprise_replace_class().
 *
 * A name leads to a class through the table of classes and, for names in compiled code, through a cache that belongs to
 * the string. Both are set. Code that has run before keeps the class that it has found: its own cache is not looked
 * for. In the table the class is an alias, as those of class_alias(). At the end of a request PHP 8.4 destroys a class
 * where it is declared and leaves aliases alone; earlier versions destroy it once for each entry, and count them. The
 * class that is replaced is in the table no more, and is not destroyed: $by extends it.
 */
#include <php.h>

#include "../worker.h"

static zval *entry_of(const zend_class_entry *class)
{
	zend_string *key = zend_string_tolower(class->name);
	zval *entry = zend_hash_find(EG(class_table), key);

	zend_string_release(key);
	return entry;
}

/* NULL, with an exception: it is no class of the application, or an alias. May load it, and others: the table moves. */
static zend_class_entry *declared(zend_string *name, uint32_t argument)
{
	zend_class_entry *class = zend_lookup_class(name);
	const uint32_t others = ZEND_ACC_INTERFACE | ZEND_ACC_TRAIT | ZEND_ACC_ENUM;

	if (EG(exception)) {
		return NULL;
	}
	if (class && class->type == ZEND_USER_CLASS && !(class->ce_flags & others)) {
		const char *own = ZSTR_VAL(name) + (ZSTR_VAL(name)[0] == '\\');
		zval *entry = entry_of(class);
		if (entry && Z_TYPE_INFO_P(entry) == IS_PTR && strcasecmp(ZSTR_VAL(class->name), own) == 0) {
			return class;
		}
	}
	zend_argument_value_error(argument, "must be a class of the application by its own name, %s given", ZSTR_VAL(name));
	return NULL;
}

static void replace(zend_class_entry *class, zend_class_entry *by)
{
	zval *entry = entry_of(class);

#if PHP_VERSION_ID < 80400
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
	zend_class_entry *class = declared(name, 1);
	zend_class_entry *by = class ? declared(by_name, 2) : NULL;
	if (!by) {
		RETURN_THROWS();
	}
	if (by->parent != class) {
		zend_argument_value_error(2, "must be a class that extends %s, %s given", ZSTR_VAL(class->name),
		                          ZSTR_VAL(by->name));
		RETURN_THROWS();
	}
	if (by->ce_flags & ZEND_ACC_FINAL) {
		zend_argument_value_error(2, "must not be final, as other classes may extend %s", ZSTR_VAL(class->name));
		RETURN_THROWS();
	}
	replace(class, by);
}
