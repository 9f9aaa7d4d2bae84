/* PHP's values and those of the segment. See data.h. */
#ifndef REPRISE_DATA_VALUES_H
#define REPRISE_DATA_VALUES_H

#include <php.h>

#include "data.h"

/* How a value was put down. */
enum data_kind {
	DATA_LAID_OUT = 0,
	DATA_NUMBER = 1, /* counts in place; the number is the segment's, too */
	DATA_SERIALIZED = 2,
	DATA_IGBINARY = 3
};

/* When a value is stored, and under which condition. */
struct data_order {
	zend_string *key;
	const struct data_cache_ValueTag *tags;
	size_t tag_count;
	uint64_t flush;
	uint64_t ttl, stale; /* milliseconds; a ttl of 0: for ever */
	uint32_t cost;       /* microseconds */
	uint32_t condition;  /* of data_cache_publish */
	bool is_memo;        /* nothing else leaves for it */
	uint64_t number;
};

enum data_stored {
	DATA_STORED,
	DATA_NOT_STORED, /* the condition does not hold */
	DATA_TOO_LARGE,
	DATA_NO_ROOM, /* memory that may be used again comes when requests have ended, or this process has no place */
	DATA_THROWN   /* the value cannot be stored: an exception says why */
};

enum data_stored data_store_value(const struct data_order *order, zval *value);

/* What was found, as a value of PHP. False: it cannot be read here, or an exception was thrown. */
bool data_give(zval *target, const struct data_cache_Value *found);

/* A value in bytes that another node can read. NULL: it is too large for that, or an exception says why not. */
zend_string *data_encode(zval *value, enum data_kind *kind);
/* False: they cannot be read here, or an exception was thrown. */
bool data_decode(zval *target, enum data_kind kind, zend_string *bytes);

/* At the end of a look-up: what is copied holds nothing. */
void data_has_copied(void);

#endif
