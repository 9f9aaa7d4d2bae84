/*
 * PHP's cache of compiled regular expressions, in the order in which they were compiled.
 */
#include <php.h>
#include <ext/pcre/php_pcre.h>

#include "patterns.h"

uint32_t reprise_pattern_count(void)
{
	return PCRE_G(pcre_cache).nNumUsed;
}

void reprise_each_pattern(uint32_t first, void (*each)(const zend_string *, void *), void *context)
{
	const HashTable *cache = &PCRE_G(pcre_cache);

	for (uint32_t i = first; i < cache->nNumUsed; i++) {
		const Bucket *bucket = &cache->arData[i];
		if (Z_TYPE(bucket->val) != IS_UNDEF && bucket->key) {
			each(bucket->key, context);
		}
	}
}

void reprise_compile_pattern(const char *text, size_t size)
{
	zend_string *pattern = zend_string_init(text, size, 0);

	pcre_get_compiled_regex_cache(pattern);
	zend_string_release(pattern);
}

void reprise_forget_pattern_error(void)
{
	PCRE_G(error_code) = PHP_PCRE_NO_ERROR;
}
