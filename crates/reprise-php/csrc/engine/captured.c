/*
 * What code of the application still holds of the boot's request when the boot is over: its time, its client, its host.
 * All visitors would get these values. PHP cannot tell where a value comes from, so only what is sure counts:
 *
 * - a string that is the very string of $_SERVER: PHP copies no string that nobody changes;
 * - the time of the request as $_SERVER['REQUEST_TIME_FLOAT'] has it. A number of whole seconds may come from
 * elsewhere, a file for example. So it counts only where a constant or variable has it directly;
 * - an address that was put together, "http://" and the host, where a constant or variable has it directly, unless it
 * is a literal of a script (which opcache keeps elsewhere) or a setting of the environment.
 *
 * Constants, global variables, static variables and static properties are looked at, and arrays and objects in them
 * down to MAX_DEPTH. What frameworks keep and replace themselves does not count: what lies deeper, as in their
 * containers, and copies of $_SERVER as a whole. Nor do statics of libraries, which the application cannot change.
 */
#include <php.h>
#include <build-defs.h>
#include <SAPI.h>
#include <zend_smart_str.h>

#include <string.h>

#include "../core/log.h"
#include "../core/options.h"
#include "captured.h"
#include "superglobals.h"
#include "../core/head.h"

#define MAX_DEPTH 3
#define MAX_VALUES 100000
#define MAX_NAMED 10

enum fits { OF_REQUEST, OF_HOST, OF_ORIGIN };

static const struct {
	const char *name, *what;
	enum fits fits;
} kinds[] = {
    {"REMOTE_ADDR", "the client's address", OF_REQUEST},
    {"REQUEST_METHOD", "the method", OF_REQUEST},
    {"HTTP_HOST", "the host", OF_HOST},
    {"SERVER_NAME", "the host", OF_HOST},
    {"REQUEST_SCHEME", "the scheme", OF_ORIGIN},
    {"SERVER_PORT", "the port", OF_ORIGIN},
};
#define KINDS (sizeof kinds / sizeof *kinds)

struct search {
	const zend_string *texts[KINDS]; /* NULL: every request has the same */
	const char *host;                /* NULL: the host of every request */
	double time;
	HashTable seen; /* arrays and objects, by address */
	uint32_t values, count;
	smart_str named;
};

/* An address at the boot's host, without anything that the request has not brought. */
static bool is_address(const struct search *search, const zend_string *text)
{
	const char *at = strstr(ZSTR_VAL(text), "://");
	size_t size = search->host ? strlen(search->host) : 0;

	if (!size || ZSTR_IS_INTERNED(text) || strncmp(ZSTR_VAL(text), "http", 4) != 0 || !at
	    || strncmp(at + 3, search->host, size) != 0 || (at[3 + size] && at[3 + size] != '/')) {
		return false;
	}
	zval *settings = engine_superglobal(ZEND_STRL("_ENV")), *setting;
	if (settings) {
		ZEND_HASH_FOREACH_VAL(Z_ARRVAL_P(settings), setting)
		{
			if (Z_TYPE_P(setting) == IS_STRING && zend_string_equals(Z_STR_P(setting), text)) {
				return false;
			}
		}
		ZEND_HASH_FOREACH_END();
	}
	return true;
}

/* In words, or NULL. `key`: of the array or object that has the value; NULL: a constant or variable has it. */
static const char *captured(const struct search *search, const zval *value, const char *key)
{
	switch (Z_TYPE_P(value)) {
	case IS_STRING:
		for (size_t i = 0; i < KINDS; i++) {
			if (Z_STR_P(value) == search->texts[i]) {
				return key && strcmp(key, kinds[i].name) == 0 ? NULL : kinds[i].what;
			}
		}
		return !key && is_address(search, Z_STR_P(value)) ? "an address with its host" : NULL;
	case IS_DOUBLE:
		return Z_DVAL_P(value) == search->time && !(key && strcmp(key, "REQUEST_TIME_FLOAT") == 0) ? "the time" : NULL;
	case IS_LONG: return Z_LVAL_P(value) == (zend_long)search->time && !key ? "the time" : NULL;
	default: return NULL;
	}
}

static void name(struct search *search, const char *where, const char *what)
{
	if (search->count++ < MAX_NAMED) {
		if (search->count > 1) {
			smart_str_appends(&search->named, ", ");
		}
		smart_str_append_printf(&search->named, "%s (%s)", where, what);
	}
}

static void look(struct search *search, zval *value, const char *where, const char *key, int depth);

static void look_at_elements(struct search *search, HashTable *elements, const char *where, bool is_object, int depth)
{
	zend_string *key;
	zend_ulong number;
	zval *value;

	ZEND_HASH_FOREACH_KEY_VAL_IND(elements, number, key, value)
	{
		char path[256], index[24];
		const char *property = key ? ZSTR_VAL(key) : index;
		snprintf(index, sizeof index, ZEND_ULONG_FMT, number);
		if (key && is_object && ZSTR_LEN(key) > 0 && !*property) {
			/* "\0Class\0name" of a property that is not public. */
			property += strlen(property + 1) + 2;
		}
		snprintf(path, sizeof path, is_object ? "%s->%s" : key ? "%s['%s']" : "%s[%s]", where, property);
		look(search, value, path, property, depth + 1);
	}
	ZEND_HASH_FOREACH_END();
}

static void look_at_properties(struct search *search, zend_object *object, const char *where, int depth)
{
	/* Code that has asked for all properties, or has added one, has made a table of all. */
	if (object->properties) {
		look_at_elements(search, object->properties, where, true, depth);
		return;
	}
	for (int i = 0; i < object->ce->default_properties_count; i++) {
		const zend_property_info *property = object->ce->properties_info_table[i];
		const char *class, *own;
		char path[256];
		if (property && zend_unmangle_property_name(property->name, &class, &own) == SUCCESS) {
			snprintf(path, sizeof path, "%s->%s", where, own);
			look(search, OBJ_PROP_NUM(object, i), path, own, depth + 1);
		}
	}
}

static void look(struct search *search, zval *value, const char *where, const char *key, int depth)
{
	ZVAL_DEREF(value);
	if (search->values++ > MAX_VALUES) {
		return;
	}
	const char *what = captured(search, value, key);
	if (what) {
		name(search, where, what);
		return;
	}
	bool is_object = Z_TYPE_P(value) == IS_OBJECT;
	/* What opcache holds is from the text of a script. */
	bool is_array = Z_TYPE_P(value) == IS_ARRAY && !(GC_FLAGS(Z_ARR_P(value)) & GC_IMMUTABLE);
	if ((!is_object && !is_array) || depth >= MAX_DEPTH
	    || !zend_hash_index_add_empty_element(&search->seen, (zend_ulong)(uintptr_t)Z_COUNTED_P(value))) {
		return;
	}
	if (is_array) {
		look_at_elements(search, Z_ARRVAL_P(value), where, false, depth);
	} else if (Z_OBJCE_P(value)->type == ZEND_USER_CLASS || Z_OBJCE_P(value) == zend_standard_class_def) {
		look_at_properties(search, Z_OBJ_P(value), where, depth);
	}
}

static void look_at_constants(struct search *search)
{
	zend_constant *constant;

	ZEND_HASH_FOREACH_PTR(EG(zend_constants), constant)
	{
		char where[256];
		if (ZEND_CONSTANT_MODULE_NUMBER(constant) == PHP_USER_CONSTANT) {
			snprintf(where, sizeof where, "constant %s", ZSTR_VAL(constant->name));
			look(search, &constant->value, where, NULL, 0);
		}
	}
	ZEND_HASH_FOREACH_END();
}

/* The request brings these. */
static bool is_renewed(const zend_string *name)
{
	return zend_hash_exists(CG(auto_globals), (zend_string *)name) || zend_string_equals_literal(name, "argv")
	       || zend_string_equals_literal(name, "argc");
}

static void look_at_globals(struct search *search)
{
	zend_string *key;
	zval *value;

	ZEND_HASH_FOREACH_STR_KEY_VAL_IND(&EG(symbol_table), key, value)
	{
		char where[256];
		if (key && !is_renewed(key)) {
			snprintf(where, sizeof where, "$%s", ZSTR_VAL(key));
			look(search, value, where, NULL, 0);
		}
	}
	ZEND_HASH_FOREACH_END();
}

/* Below Composer's directory, or PHP's own of libraries. */
static bool is_of_library(const zend_string *file)
{
	static const char libraries[] = PEAR_INSTALLDIR "/";

	return !file || strstr(ZSTR_VAL(file), "/vendor/") || strncmp(ZSTR_VAL(file), libraries, sizeof libraries - 1) == 0;
}

static void look_at_statics(struct search *search, zend_function *function)
{
	const zend_class_entry *class = function->common.scope;
	zend_string *key;
	zval *value;

	if (function->type != ZEND_USER_FUNCTION || !ZEND_MAP_PTR(function->op_array.static_variables_ptr)
	    || is_of_library(function->op_array.filename)) {
		return;
	}
	HashTable *variables = ZEND_MAP_PTR_GET(function->op_array.static_variables_ptr);
	if (!variables) {
		return;
	}
	ZEND_HASH_FOREACH_STR_KEY_VAL(variables, key, value)
	{
		char where[256];
		snprintf(where, sizeof where, "static $%s of %s%s%s()", ZSTR_VAL(key), class ? ZSTR_VAL(class->name) : "",
		         class ? "::" : "", ZSTR_VAL(function->common.function_name));
		look(search, value, where, NULL, 0);
	}
	ZEND_HASH_FOREACH_END();
}

static void look_at_class(struct search *search, zend_class_entry *class)
{
	zend_function *method;
	zend_property_info *property;

	/* An alias is another name of a class. */
	if (class->type != ZEND_USER_CLASS || is_of_library(class->info.user.filename)
	    || !zend_hash_index_add_empty_element(&search->seen, (zend_ulong)(uintptr_t) class)) {
		return;
	}
	ZEND_HASH_FOREACH_PTR(&class->function_table, method)
	{
		if (method->common.scope == class) {
			look_at_statics(search, method);
		}
	}
	ZEND_HASH_FOREACH_END();
	if (class->default_static_members_count == 0 || !CE_STATIC_MEMBERS(class)) {
		return;
	}
	ZEND_HASH_FOREACH_PTR(&class->properties_info, property)
	{
		const char *of, *own;
		char where[256];
		if ((property->flags & ZEND_ACC_STATIC)
		    && property->ce == class && zend_unmangle_property_name(property->name, &of, &own) == SUCCESS) {
			snprintf(where, sizeof where, "%s::$%s", ZSTR_VAL(class->name), own);
			look(search, CE_STATIC_MEMBERS(class) + property->offset, where, NULL, 0);
		}
	}
	ZEND_HASH_FOREACH_END();
}

static void begin(struct search *search, bool is_per_host)
{
	const char *hosts = reprise_options.hosts;
	bool fits_host = is_per_host || (hosts && !strchr(hosts, ',')); /* a JSON list */
	const zval *server = engine_brought(TRACK_VARS_SERVER);

	search->time = sapi_get_request_time();
	for (size_t i = 0; i < KINDS && Z_TYPE_P(server) == IS_ARRAY; i++) {
		const zval *value = zend_hash_str_find(Z_ARRVAL_P(server), kinds[i].name, strlen(kinds[i].name));
		bool fits = (kinds[i].fits == OF_HOST && fits_host) || (kinds[i].fits == OF_ORIGIN && is_per_host);
		if (!fits && value && Z_TYPE_P(value) == IS_STRING && !ZSTR_IS_INTERNED(Z_STR_P(value))) {
			search->texts[i] = Z_STR_P(value);
		}
	}
	search->host = fits_host ? NULL : reprise_variable(ZEND_STRL("HTTP_HOST"));
	zend_hash_init(&search->seen, 64, NULL, NULL, 0);
}

void engine_report_captured(bool is_per_host, const char *below)
{
	struct search search = {0};
	zend_function *function;
	zend_class_entry *class;

	begin(&search, is_per_host);
	look_at_constants(&search);
	look_at_globals(&search);
	ZEND_HASH_FOREACH_PTR(EG(function_table), function)
	{
		look_at_statics(&search, function);
	}
	ZEND_HASH_FOREACH_END();
	ZEND_HASH_FOREACH_PTR(EG(class_table), class)
	{
		look_at_class(&search, class);
	}
	ZEND_HASH_FOREACH_END();
	smart_str_0(&search.named);
	if (search.count > 0) {
		char more[32] = "";
		if (search.count > MAX_NAMED) {
			snprintf(more, sizeof more, " and %u more", search.count - MAX_NAMED);
		}
		reprise_log_line("warning",
		                 "%s: all visitors get what the boot has kept of its own request: %s%s; hint: read $_SERVER %s "
		                 "(docs/guides/snapshot.md#what-a-boot-must-not-keep)",
		                 reprise_head_text(reprise_head()->script), ZSTR_VAL(search.named.s), more, below);
	}
	smart_str_free(&search.named);
	zend_hash_destroy(&search.seen);
}
