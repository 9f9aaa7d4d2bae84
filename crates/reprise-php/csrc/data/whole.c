/* Functions for many values at once: those with a tag, all, and what is counted of them. */
#define _GNU_SOURCE
#include <php.h>

#include "arguments.h"
#include "cluster.h"
#include "talk.h"
#include "clock.h"
#include "../core/data_state.h"

ZEND_FUNCTION(reprise_cache_invalidate)
{
	HashTable *names;
	zval *name;
	struct data_tags tags;

	ZEND_PARSE_PARAMETERS_START(1, 1)
	Z_PARAM_ARRAY_HT(names)
	ZEND_PARSE_PARAMETERS_END();
	/* All or none. */
	if (zend_hash_num_elements(names) <= data_cache_MOST_VALUE_TAGS && !data_read_tags(&tags, names, 1)) {
		RETURN_THROWS();
	}
	ZEND_HASH_FOREACH_VAL(names, name)
	{
		ZVAL_DEREF(name);
		if (Z_TYPE_P(name) != IS_STRING || Z_STRLEN_P(name) == 0 || Z_STRLEN_P(name) > data_cache_MOST_KEY) {
			zend_argument_value_error(1, "must have strings of 1 to %d bytes", data_cache_MOST_KEY);
			RETURN_THROWS();
		}
	}
	ZEND_HASH_FOREACH_END();
	bool is_done = reprise_data->is_attached;
	data_cluster_invalidate(names);
	ZEND_HASH_FOREACH_VAL(names, name)
	{
		ZVAL_DEREF(name);
		is_done = is_done
		          && data_cache_invalidate(&reprise_data->process, (const uint8_t *)Z_STRVAL_P(name), Z_STRLEN_P(name));
	}
	ZEND_HASH_FOREACH_END();
	RETURN_BOOL(is_done);
}

ZEND_FUNCTION(reprise_cache_flush)
{
	ZEND_PARSE_PARAMETERS_NONE();
	data_cluster_invalidate(NULL);
	RETURN_BOOL(reprise_data->is_attached && data_cache_flush(&reprise_data->process));
}

ZEND_FUNCTION(reprise_cache_stats)
{
	static const char *const counted[data_cache_COUNTED] = {"hits", "misses", "stale", "stores", "waits", "computed"};
	struct data_cache_Statistics is;

	ZEND_PARSE_PARAMETERS_NONE();
	array_init(return_value);
	if (!reprise_data->is_attached) {
		return;
	}
	data_cache_statistics(&reprise_data->process, data_now(), &is);
	for (size_t i = 0; i < data_cache_COUNTED; i++) {
		add_assoc_long(return_value, counted[i], (zend_long)is.counted[i]);
	}
	add_assoc_long(return_value, "entries", (zend_long)is.entries);
	add_assoc_long(return_value, "bytes", (zend_long)is.live);
	add_assoc_long(return_value, "memory", (zend_long)is.size);
	add_assoc_long(return_value, "largest", (zend_long)is.largest);
	add_assoc_long(return_value, "evicted", (zend_long)is.evicted);
	add_assoc_long(return_value, "refused", (zend_long)is.refused);
	add_assoc_long(return_value, "held", (zend_long)is.retired);
	add_assoc_long(return_value, "holder", (zend_long)is.holder);
	add_assoc_long(return_value, "swept", (zend_long)is.swept);
	add_assoc_long(return_value, "taken_over", (zend_long)is.taken_over);
	if (reprise_data->door > 0) {
		add_assoc_string(return_value, "store", data_talk_is_possible() ? "ready" : "away");
	}
}
