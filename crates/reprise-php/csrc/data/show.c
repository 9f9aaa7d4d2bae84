/* See show.h. */
#define _GNU_SOURCE
#include <php.h>
#include <zend_smart_str.h>

#include <stdio.h>
#include <string.h>

#include "../engine/shared_values.h"
#include "show.h"
#include "values.h"

static bool add(struct data_cache_AnswerText *text, const char *string)
{
	return data_cache_add(text, (const uint8_t *)string, strlen(string));
}

static bool add_string(struct data_cache_AnswerText *text, const zend_string *string)
{
	return data_cache_add_string(text, (const uint8_t *)ZSTR_VAL(string), ZSTR_LEN(string));
}

static bool add_long(struct data_cache_AnswerText *text, zend_long number)
{
	char digits[32];

	snprintf(digits, sizeof digits, ZEND_LONG_FMT, number);
	return add(text, digits);
}

static bool add_double(struct data_cache_AnswerText *text, double number)
{
	smart_str digits = {0};

	/* The shortest text that is the same number, as var_export() writes it. */
	smart_str_append_double(&digits, number, -1, true);
	smart_str_0(&digits);
	bool has_room = add(text, ZSTR_VAL(digits.s));
	smart_str_free(&digits);
	return has_room;
}

static bool indent(struct data_cache_AnswerText *text, int depth)
{
	bool has_room = true;

	for (int i = 0; i < depth && has_room; i++) {
		has_room = add(text, "    ");
	}
	return has_room;
}

static bool show(struct data_cache_AnswerText *text, const zval *value, int depth);

/* False: there is no room for the rest. */
static bool show_array(struct data_cache_AnswerText *text, HashTable *array, int depth)
{
	bool has_room = add(text, "["), is_list = zend_array_is_list(array);
	zend_ulong index;
	zend_string *key;
	zval *value;

	if (depth >= SHARED_DEPTH) {
		return add(text, "…]");
	}
	ZEND_HASH_FOREACH_KEY_VAL(array, index, key, value)
	{
		has_room = add(text, "\n") && indent(text, depth + 1);
		if (has_room && !is_list) {
			has_room = (key ? add_string(text, key) : add_long(text, (zend_long)index)) && add(text, " => ");
		}
		if (!has_room || !show(text, value, depth + 1) || !add(text, ",")) {
			return false;
		}
	}
	ZEND_HASH_FOREACH_END();
	return (zend_hash_num_elements(array) == 0 || (add(text, "\n") && indent(text, depth))) && add(text, "]");
}

static bool show(struct data_cache_AnswerText *text, const zval *value, int depth)
{
	switch (Z_TYPE_P(value)) {
	case IS_NULL: return add(text, "null");
	case IS_FALSE: return add(text, "false");
	case IS_TRUE: return add(text, "true");
	case IS_LONG: return add_long(text, Z_LVAL_P(value));
	case IS_DOUBLE: return add_double(text, Z_DVAL_P(value));
	case IS_STRING: return add_string(text, Z_STR_P(value));
	case IS_ARRAY: return show_array(text, Z_ARRVAL_P(value), depth);
	default: return add(text, "?");
	}
}

void data_show(const struct data_cache_Value *found, struct data_cache_AnswerText *text)
{
	const zval *value = (const zval *)(const void *)found->zval;
	const char *function = "unserialize(";

	switch ((enum data_kind)found->kind) {
	case DATA_NUMBER: add_long(text, (zend_long)__atomic_load_n(&Z_LVAL_P(value), __ATOMIC_RELAXED)); return;
	case DATA_LAID_OUT: show(text, value, 0); return;
	case DATA_IGBINARY: function = "igbinary_unserialize("; break;
	case DATA_SERIALIZED: break;
	}
	if (Z_TYPE_P(value) == IS_STRING && add(text, function) && add_string(text, Z_STR_P(value))) {
		add(text, ")");
	}
}
