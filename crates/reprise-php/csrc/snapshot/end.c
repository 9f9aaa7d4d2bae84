/*
 * The end of a request in snapshot mode, on PHP's stack: every step of php_request_shutdown (main/main.c) that anybody
 * can see, in its order. What only frees memory is left out: the rewind does that.
 *
 * What frees memory and does more is told apart by what was there at the snapshot: resources made since are closed, and
 * objects made or changed since whose class has a free_obj of its own are freed (it closes files, ends transactions,
 * writes archives). What the snapshot owns is never closed.
 */
#define _GNU_SOURCE
#include <php.h>
#include <php_main.h>
#include <php_output.h>
#include <ext/standard/basic_functions.h>
#include <rfc1867.h>
#include <SAPI.h>
#include <zend_closures.h>
#include <zend_observer.h>

#include <stdlib.h>
#include <string.h>

#include "snapshot.h"

/* A copy of an object of the snapshot that has a free_obj of its own: as long as it is like that, it is untouched. */
struct kept_object {
	zend_object *object;
	uint32_t handle;
	size_t offset, size; /* of the whole structure, before and around the zend_object */
	unsigned char *bytes;
};

static struct {
	zend_long first_resource;
	uint32_t persistent;
	uint32_t top;
	zend_object **objects;
	struct kept_object *kept; /* in order of handles */
	uint32_t kept_count;
} ending;

static bool frees_more_than_memory(const zend_object *object)
{
	return object->handlers->free_obj != zend_object_std_dtor && object->ce != zend_ce_closure;
}

static void *must_have(void *memory)
{
	if (!memory) {
		reprise_boot_failed("there is no memory left for the snapshot", NULL);
	}
	return memory;
}

/* At the snapshot, in the template. malloc: the lists are part of the snapshot, and no part of PHP's memory limit. */
void reprise_end_prepare(void)
{
	zend_objects_store *store = &EG(objects_store);

	ending.first_resource = EG(regular_list).nNextFreeElement;
	ending.persistent = EG(persistent_list).nNumUsed;
	ending.top = store->top;
	ending.objects = must_have(malloc(store->top * sizeof *ending.objects));
	ending.kept = must_have(calloc(store->top, sizeof *ending.kept));
	memcpy(ending.objects, store->object_buckets, store->top * sizeof *ending.objects);
	for (uint32_t i = 1; i < store->top; i++) {
		zend_object *object = store->object_buckets[i];
		if (!IS_OBJ_VALID(object) || !frees_more_than_memory(object)) {
			continue;
		}
		struct kept_object *kept = &ending.kept[ending.kept_count++];
		kept->object = object;
		kept->handle = i;
		kept->offset = (size_t)object->handlers->offset;
		kept->size = kept->offset + sizeof(zend_object);
		kept->bytes = must_have(malloc(kept->size));
		memcpy(kept->bytes, (char *)object - kept->offset, kept->size);
	}
}

static const struct kept_object *find_kept(uint32_t handle)
{
	uint32_t low = 0, high = ending.kept_count;

	while (low < high) {
		uint32_t middle = (low + high) / 2;
		if (ending.kept[middle].handle < handle) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low < ending.kept_count && ending.kept[low].handle == handle ? &ending.kept[low] : NULL;
}

static bool is_of_snapshot(const zend_object *object)
{
	return object->handle < ending.top && ending.objects[object->handle] == object;
}

static void hold(zend_object *object, bool hold)
{
	if (hold) {
		GC_ADDREF(object);
	} else {
		GC_DELREF(object);
	}
}

/*
 * zend_call_destructors frees the global variables that hold an object alone, and all that hangs on them. What the
 * snapshot owns is held meanwhile: its destructor is called like every other, but nothing of it is freed, which would
 * be undone at once. (Destructors of such objects run in the order of their making, after those of the request's own
 * globals.)
 */
static void hold_snapshot(bool begins)
{
	zend_objects_store *store = &EG(objects_store);
	zval *value;

	for (uint32_t i = 0; i < ending.kept_count; i++) {
		zend_object *object = ending.kept[i].object;
		if (store->object_buckets[ending.kept[i].handle] == object) {
			hold(object, begins);
		}
	}
	ZEND_HASH_FOREACH_VAL_IND(&EG(symbol_table), value)
	{
		if (Z_TYPE_P(value) == IS_OBJECT && is_of_snapshot(Z_OBJ_P(value))) {
			hold(Z_OBJ_P(value), begins);
		}
	}
	ZEND_HASH_FOREACH_END();
}

/* The request's own: made by it, or the snapshot's and used by it, which FPM would free now too. */
static bool is_of_this_request(zend_object *object, uint32_t handle)
{
	if (handle >= ending.top || ending.objects[handle] != object) {
		return true;
	}
	const struct kept_object *kept = find_kept(handle);
	return !kept || memcmp(kept->bytes, (char *)object - kept->offset, kept->size) != 0;
}

/* As zend_objects_store_free_object_storage, for the request's objects. */
static void free_objects(void)
{
	zend_objects_store *store = &EG(objects_store);

	for (uint32_t handle = store->top; handle-- > 1;) {
		zend_object *object = store->object_buckets[handle];
		if (!IS_OBJ_VALID(object) || !frees_more_than_memory(object) || (OBJ_FLAGS(object) & IS_OBJ_FREE_CALLED)
		    || !is_of_this_request(object, handle)) {
			continue;
		}
		GC_ADD_FLAGS(object, IS_OBJ_FREE_CALLED);
		GC_ADDREF(object);
		zend_try
		{
			object->handlers->free_obj(object);
		}
		zend_end_try();
	}
}

/* As zend_close_rsrc_list, for resources made since the snapshot. */
static void close_resources(void)
{
	EG(flags) |= EG_FLAGS_IN_RESOURCE_SHUTDOWN;
	for (uint32_t i = EG(regular_list).nNumUsed; i-- > 0;) {
		zval *place = HT_IS_PACKED(&EG(regular_list)) ? &EG(regular_list).arPacked[i] : &EG(regular_list).arData[i].val;
		if (Z_TYPE_P(place) == IS_UNDEF) {
			continue;
		}
		zend_resource *resource = Z_PTR_P(place);
		if (resource->handle < ending.first_resource) {
			continue;
		}
		zend_try
		{
			zend_list_close(resource);
		}
		zend_end_try();
	}
}

/* Persistent ones too: the rewind forgets them, so their other ends have to be told. */
static void close_persistent(void)
{
	HashTable *list = &EG(persistent_list);

	while (list->nNumUsed > ending.persistent) {
		Bucket *last = &list->arData[list->nNumUsed - 1];
		if (Z_TYPE(last->val) == IS_UNDEF) {
			list->nNumUsed--;
			continue;
		}
		zend_try
		{
			zend_hash_del_bucket(list, last);
		}
		zend_end_try();
	}
}

#define STEP(what)                                                                                                     \
	zend_try                                                                                                           \
	{                                                                                                                  \
		what;                                                                                                          \
	}                                                                                                                  \
	zend_end_try()

void reprise_end(void)
{
	EG(flags) |= EG_FLAGS_IN_SHUTDOWN;
	EG(current_execute_data) = NULL;
#ifdef ZEND_HAS_OOM
	/* Since 8.2.33 no function is called after memory was exhausted, until this is forgotten. */
	EG(delayed_oom).state = ZEND_OOM_STATE_NONE;
#endif
	/* php_deactivate_ticks, which libphp keeps for itself. */
	if (PG(tick_functions).head) {
		zend_llist_clean(&PG(tick_functions));
	}
	if (ZEND_OBSERVER_ENABLED) {
		zend_observer_fcall_end_all();
	}
	php_call_shutdown_functions();
	hold_snapshot(true);
	STEP(zend_call_destructors());
	hold_snapshot(false);
	STEP(php_output_end_all());
	STEP(zend_unset_timeout());
	zend_deactivate_modules();
	STEP(php_output_deactivate());
	close_resources();
	free_objects();
	close_persistent();
	if (SG(rfc1867_uploaded_files)) {
		STEP(destroy_uploaded_files_hash());
	}
	/* A child that a shutdown function has forked ends here; the answer is its parent's. */
	if (!reprise_worker.is_worker) {
		_exit(EG(exit_status));
	}
	if (reprise_worker.answering) {
		reprise_worker.answering = false;
		wire_finish(&reprise_worker.wire);
	}
}
