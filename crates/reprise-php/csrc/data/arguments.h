/* Arguments of the functions of the data cache. Each check throws a ValueError that names the argument, and is false
 * then. */
#ifndef REPRISE_DATA_ARGUMENTS_H
#define REPRISE_DATA_ARGUMENTS_H

#include <php.h>

#include "data.h"

/* About thirty years. */
#define DATA_MOST_SECONDS 1000000000

struct data_tags {
	struct data_cache_ValueTag tags[data_cache_MOST_VALUE_TAGS];
	size_t count;
};

bool data_key(const zend_string *key, uint32_t argument);
/* The tags with what their counters stand at now. */
bool data_read_tags(struct data_tags *tags, HashTable *names, uint32_t argument);
bool data_seconds(zend_long seconds, uint32_t argument, uint64_t *milliseconds);

/* Also a value that is stale. */
bool data_find(const zend_string *key, struct data_cache_Value *found);
/* Whether the value of a key is this string, and is not stale. */
bool data_is_string(const zend_string *key, const zend_string *text, struct data_cache_Value *found);

#endif
