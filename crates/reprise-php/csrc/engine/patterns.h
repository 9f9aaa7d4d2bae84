/* PHP's cache of compiled regular expressions. */
#ifndef REPRISE_PATTERNS_H
#define REPRISE_PATTERNS_H

#include <php.h>

uint32_t engine_pattern_count(void); /* places of the cache that were ever used */
/* Calls `each` with the key of every pattern in the places from `first` on. */
void engine_each_pattern(uint32_t first, void (*each)(const zend_string *key, void *context), void *context);
bool engine_can_compile_pattern(const char *key, size_t size); /* not if it is for a locale that is not set now */
void engine_compile_pattern(const char *key, size_t size);
void engine_forget_pattern_error(void);

#endif
