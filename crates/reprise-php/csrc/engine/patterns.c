/*
 * PHP's cache of compiled regular expressions, in the order in which they were compiled.
 *
 * After setlocale() for LC_CTYPE, PHP compiles most patterns for that locale: the key is then the locale's name with
 * the text of the pattern behind it. The rest of PHP compiles patterns for no locale (`locale_aware`), with the text as
 * the key.
 */
#include <php.h>
#include <ext/pcre/php_pcre.h>
#include <ext/standard/basic_functions.h>

#include <ctype.h>
#include <string.h>

#include "patterns.h"

uint32_t engine_pattern_count(void)
{
	return PCRE_G(pcre_cache).nNumUsed;
}

void engine_each_pattern(uint32_t first, void (*each)(const zend_string *, void *), void *context)
{
	const HashTable *cache = &PCRE_G(pcre_cache);

	for (uint32_t i = first; i < cache->nNumUsed; i++) {
		const Bucket *bucket = &cache->arData[i];
		if (Z_TYPE(bucket->val) != IS_UNDEF && bucket->key) {
			each(bucket->key, context);
		}
	}
}

/* The size of the locale's name at the beginning of a key; SIZE_MAX if the key is for a locale that is not the present
 * one. A delimiter is no letter and no digit, and a locale's name begins with one. */
static size_t locale_size(const char *key, size_t size)
{
	const zend_string *locale = BG(ctype_string);

	if (size > 0 && !isalnum((unsigned char)*key)) {
		return 0;
	}
	if (!locale || size <= ZSTR_LEN(locale) || memcmp(key, ZSTR_VAL(locale), ZSTR_LEN(locale)) != 0
	    || isalnum((unsigned char)key[ZSTR_LEN(locale)])) {
		return SIZE_MAX;
	}
	return ZSTR_LEN(locale);
}

bool engine_can_compile_pattern(const char *key, size_t size)
{
	return locale_size(key, size) != SIZE_MAX;
}

void engine_compile_pattern(const char *key, size_t size)
{
	size_t locale = locale_size(key, size);

	if (locale != SIZE_MAX) {
		zend_string *pattern = zend_string_init(key + locale, size - locale, 0);
		pcre_get_compiled_regex_cache_ex(pattern, locale > 0);
		zend_string_release(pattern);
	}
}

void engine_forget_pattern_error(void)
{
	PCRE_G(error_code) = PHP_PCRE_NO_ERROR;
}
