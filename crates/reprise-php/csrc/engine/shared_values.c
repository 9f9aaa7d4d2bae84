/* See shared_values.h. */
#include <php.h>

#include <string.h>

#include "engine.h"
#include "shared_values.h"

#define WHOLE(size) (((size) + 15) & ~(size_t)15)
#define STRING_FLAGS (IS_STRING | (IS_STR_INTERNED << GC_FLAGS_SHIFT))
/* A key of many rows, such as the name of a column, is laid out once. */
#define SEEN 64

struct seen {
	const zend_string *string;
	const zend_string *laid_out;
};

struct layout {
	size_t used;
	char *data; /* NULL: it is only measured */
	ptrdiff_t to_read;
	struct seen seen[SEEN];
};

static void *reserve(struct layout *layout, size_t size)
{
	char *at = layout->data ? layout->data + layout->used : NULL;

	layout->used += WHOLE(size);
	return at;
}

static void *readable(const struct layout *layout, void *at)
{
	return (char *)at + layout->to_read;
}

size_t engine_shared_string_size(size_t size)
{
	return WHOLE(_ZSTR_STRUCT_SIZE(size));
}

/* `hash` is 0 if it is not known. Who reads the string cannot write it there. */
static zend_string *fill_string(char *at, const char *bytes, size_t size, zend_ulong hash)
{
	zend_string *string = (zend_string *)(void *)at;

	GC_SET_REFCOUNT(string, 2);
	GC_TYPE_INFO(string) = STRING_FLAGS;
	ZSTR_LEN(string) = size;
	memcpy(ZSTR_VAL(string), bytes, size);
	ZSTR_VAL(string)[size] = 0;
	ZSTR_H(string) = hash ? hash : zend_hash_func(ZSTR_VAL(string), size);
	return string;
}

/* Measuring and laying out forget the same strings, so they come to the same size. */
static zend_string *string(struct layout *layout, const zend_string *from)
{
	struct seen *seen = &layout->seen[((uintptr_t)from >> 4) % SEEN];

	if (seen->string == from) {
		return (zend_string *)seen->laid_out;
	}
	zend_string *to = NULL;
	char *at = reserve(layout, _ZSTR_STRUCT_SIZE(ZSTR_LEN(from)));
	if (at) {
		to = readable(layout, fill_string(at, ZSTR_VAL(from), ZSTR_LEN(from), ZSTR_H(from)));
	}
	*seen = (struct seen){from, to};
	return to;
}

static enum shared_fit value(struct layout *layout, zval *to, const zval *from, unsigned depth);

static void begin_array(zend_array *to)
{
	memset(to, 0, sizeof *to);
	GC_SET_REFCOUNT(to, 2);
	GC_TYPE_INFO(to) = IS_ARRAY | ((GC_IMMUTABLE | GC_NOT_COLLECTABLE) << GC_FLAGS_SHIFT);
}

/* PHP's own empty array lies in libphp, whose address is another in each process. */
static void empty_array(struct layout *layout, zend_array *to)
{
	uint32_t *hash = reserve(layout, 2 * sizeof(uint32_t));

	if (to) {
		hash[0] = hash[1] = HT_INVALID_IDX;
		HT_FLAGS(to) = HASH_FLAG_UNINITIALIZED | HASH_FLAG_STATIC_KEYS;
		to->nTableMask = HT_MIN_MASK;
		to->nTableSize = HT_MIN_SIZE;
		HT_SET_DATA_ADDR(to, readable(layout, hash));
	}
}

static enum shared_fit packed_array(struct layout *layout, zend_array *to, const zend_array *from, unsigned depth)
{
	size_t hash_size = HT_PACKED_SIZE_EX(0, HT_MIN_MASK);
	uint32_t used = from->nNumUsed;
	char *data = reserve(layout, hash_size + used * sizeof(zval));
	zval *elements = (zval *)(void *)(data ? data + hash_size : NULL);
	enum shared_fit fit = SHARED_FITS;

	if (data) {
		memset(data, 0xff, hash_size);
		HT_FLAGS(to) = HASH_FLAG_PACKED | HASH_FLAG_STATIC_KEYS;
		to->nTableMask = HT_MIN_MASK;
		to->nTableSize = from->nTableSize;
		to->nNumUsed = used;
		HT_SET_DATA_ADDR(to, readable(layout, data));
	}
	for (uint32_t i = 0; i < used && fit == SHARED_FITS; i++) {
		fit = value(layout, elements ? &elements[i] : NULL, &from->arPacked[i], depth);
	}
	return fit;
}

static uint32_t table_size(uint32_t elements)
{
	uint32_t size = HT_MIN_SIZE;

	while (size < elements) {
		size *= 2;
	}
	return size;
}

/* Without the holes of `from`. */
static enum shared_fit hash_array(struct layout *layout, zend_array *to, const zend_array *from, unsigned depth)
{
	uint32_t size = table_size(from->nNumOfElements), mask = HT_SIZE_TO_MASK(size), count = 0;
	size_t hash_size = HT_HASH_SIZE(mask);
	char *data = reserve(layout, hash_size + from->nNumOfElements * sizeof(Bucket));
	Bucket *buckets = (Bucket *)(void *)(data ? data + hash_size : NULL);
	enum shared_fit fit = SHARED_FITS;
	bool has_only_strings = true;

	if (data) {
		memset(data, 0xff, hash_size);
	}
	for (uint32_t i = 0; i < from->nNumUsed && fit == SHARED_FITS; i++) {
		const Bucket *bucket = &from->arData[i];
		const zval *element = &bucket->val;
		if (Z_TYPE_P(element) == IS_INDIRECT) {
			element = Z_INDIRECT_P(element);
		}
		if (Z_TYPE_P(element) == IS_UNDEF) {
			continue;
		}
		zend_string *key = bucket->key ? string(layout, bucket->key) : NULL;
		has_only_strings = has_only_strings && bucket->key;
		Bucket *made = buckets ? &buckets[count] : NULL;
		fit = value(layout, made ? &made->val : NULL, element, depth);
		if (made) {
			made->h = bucket->h;
			made->key = key;
			uint32_t *head = &((uint32_t *)(void *)buckets)[(int32_t)((uint32_t)made->h | mask)];
			Z_NEXT(made->val) = *head;
			*head = count;
		}
		count++;
	}
	if (data) {
		HT_FLAGS(to) = HASH_FLAG_STATIC_KEYS;
		to->nTableMask = mask;
		to->nTableSize = size;
		to->nNumUsed = count;
		HT_SET_DATA_ADDR(to, readable(layout, data));
	}
	return fit;
}

static enum shared_fit array(struct layout *layout, zval *to, const zend_array *from, unsigned depth)
{
	zend_array *made = reserve(layout, sizeof(zend_array));
	enum shared_fit fit = SHARED_FITS;

	if (depth >= SHARED_DEPTH) {
		return SHARED_TOO_DEEP;
	}
	if (made) {
		begin_array(made);
	}
	if (from->nNumOfElements == 0) {
		empty_array(layout, made);
	} else if (HT_IS_PACKED(from)) {
		fit = packed_array(layout, made, from, depth + 1);
	} else {
		fit = hash_array(layout, made, from, depth + 1);
	}
	if (made) {
		made->nNumOfElements = from->nNumOfElements;
		/* Of an array with indirect elements, some of which are not set. */
		if (!HT_IS_PACKED(from) && made->nNumUsed < from->nNumOfElements) {
			made->nNumOfElements = made->nNumUsed;
		}
		made->nNextFreeElement = from->nNextFreeElement;
		to->value.arr = readable(layout, made);
		Z_TYPE_INFO_P(to) = IS_ARRAY;
	}
	return fit;
}

static enum shared_fit value(struct layout *layout, zval *to, const zval *from, unsigned depth)
{
	if (Z_TYPE_P(from) == IS_REFERENCE) {
		/* Of two variables that are one the value would be two. */
		if (Z_REFCOUNT_P(from) > 1 && depth > 0) {
			return SHARED_SERIALIZE;
		}
		from = Z_REFVAL_P(from);
	}
	switch (Z_TYPE_P(from)) {
	case IS_UNDEF:
	case IS_NULL:
	case IS_FALSE:
	case IS_TRUE:
	case IS_LONG:
	case IS_DOUBLE:
		if (to) {
			to->value = from->value;
			Z_TYPE_INFO_P(to) = Z_TYPE_P(from);
			to->u2.extra = 0;
		}
		return SHARED_FITS;
	case IS_STRING: {
		zend_string *made = string(layout, Z_STR_P(from));
		if (to) {
			to->value.str = made;
			Z_TYPE_INFO_P(to) = IS_STRING;
			to->u2.extra = 0;
		}
		return SHARED_FITS;
	}
	case IS_ARRAY: {
		zval made = {0};
		enum shared_fit fit = array(layout, &made, Z_ARRVAL_P(from), depth);
		if (to) {
			*to = made;
		}
		return fit;
	}
	case IS_OBJECT: return SHARED_SERIALIZE;
	default: return SHARED_RESOURCE;
	}
}

enum shared_fit engine_shared_measure(const zval *from, size_t *size)
{
	struct layout layout;

	memset(&layout, 0, sizeof layout);
	enum shared_fit fit = value(&layout, NULL, from, 0);
	*size = layout.used;
	return fit;
}

void engine_shared_lay_out(zval *target, const zval *from, char *data, ptrdiff_t to_read)
{
	struct layout layout;
	zval made;

	memset(&layout, 0, sizeof layout);
	layout.data = data;
	layout.to_read = to_read;
	(void)value(&layout, &made, from, 0);
	*target = made;
}

void engine_shared_lay_out_string(zval *target, const char *bytes, size_t size, char *data, ptrdiff_t to_read)
{
	zend_string *made = fill_string(data, bytes, size, 0);

	target->value.str = (zend_string *)(void *)((char *)made + to_read);
	Z_TYPE_INFO_P(target) = IS_STRING;
	target->u2.extra = 0;
}

/* ---- an entry was moved -------------------------------------------------------------------------------------------
 */

static void *shifted(void *pointer, ptrdiff_t shift)
{
	return (char *)pointer + shift;
}

static void relocate_array(zend_array *at, ptrdiff_t shift, ptrdiff_t alias)
{
	/* Before and after the shift the data lies behind its hash. */
	at->arPacked = shifted(at->arPacked, shift);
	if (HT_FLAGS(at) & HASH_FLAG_UNINITIALIZED) {
		return;
	}
	if (HT_IS_PACKED(at)) {
		zval *elements = shifted(at->arPacked, alias);
		for (uint32_t i = 0; i < at->nNumUsed; i++) {
			engine_shared_relocate(&elements[i], shift, alias);
		}
		return;
	}
	Bucket *buckets = shifted(at->arData, alias);
	for (uint32_t i = 0; i < at->nNumUsed; i++) {
		if (buckets[i].key) {
			buckets[i].key = shifted(buckets[i].key, shift);
		}
		engine_shared_relocate(&buckets[i].val, shift, alias);
	}
}

void engine_shared_relocate(zval *at, ptrdiff_t shift, ptrdiff_t alias)
{
	if (Z_TYPE_P(at) == IS_STRING) {
		at->value.str = shifted(at->value.str, shift);
	} else if (Z_TYPE_P(at) == IS_ARRAY) {
		at->value.arr = shifted(at->value.arr, shift);
		relocate_array(shifted(at->value.arr, alias), shift, alias);
	}
}

/* ---- copies ---------------------------------------------------------------------------------------------------------
 */

static void copy_out_array(zval *target, zend_array *from)
{
	zend_ulong index;
	zend_string *key;
	zval *element, copy;

	array_init_size(target, from->nNumOfElements);
	if (HT_IS_PACKED(from)) {
		zend_hash_real_init_packed(Z_ARRVAL_P(target));
	}
	ZEND_HASH_FOREACH_KEY_VAL(from, index, key, element)
	{
		engine_shared_copy_out(&copy, element);
		if (key) {
			zend_string *own = zend_string_init(ZSTR_VAL(key), ZSTR_LEN(key), false);
			ZSTR_H(own) = ZSTR_H(key);
			zend_hash_add_new(Z_ARRVAL_P(target), own, &copy);
			zend_string_release(own);
		} else {
			zend_hash_index_add_new(Z_ARRVAL_P(target), index, &copy);
		}
	}
	ZEND_HASH_FOREACH_END();
	Z_ARRVAL_P(target)->nNextFreeElement = from->nNextFreeElement;
}

void engine_shared_copy_out(zval *target, const zval *from)
{
	if (Z_TYPE_P(from) == IS_STRING) {
		ZVAL_STRINGL_FAST(target, Z_STRVAL_P(from), Z_STRLEN_P(from));
	} else if (Z_TYPE_P(from) == IS_ARRAY) {
		copy_out_array(target, Z_ARRVAL_P(from));
	} else {
		ZVAL_COPY_VALUE(target, from);
	}
}
