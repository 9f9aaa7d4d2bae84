/*
 * PHP's objects and resources at the end of a request in snapshot mode. Steps that only free memory are left out,
 * because the rewind does that.
 *
 * Resources that were made since the snapshot are closed. An object is freed if its class has a free_obj of its own:
 * that closes files, ends transactions, or writes archives. Objects of PHP's core are not freed, because their free_obj
 * frees memory alone. Objects of the snapshot are freed, too: what a request has done with a PDO or a ZipArchive of the
 * boot must have no effect outside of the request. The rewind opens files of the snapshot that are closed by this
 * (kernel.c).
 */
#define _GNU_SOURCE
#include <php.h>
#include <ext/spl/spl_directory.h>

#include <stdlib.h>
#include <string.h>

#include "../snapshot/template.h"
#include "objects.h"

/* Classes of these modules free memory alone. SPL's classes of files are the exception. */
static const char *const core_modules[] = {"core", "date", "reflection", "spl"};
#define CORE_MODULES (sizeof core_modules / sizeof *core_modules)

static struct {
	zend_long first_resource;
	uint32_t persistent;
	uint32_t top;
	zend_object **objects;
	const zend_module_entry *core[CORE_MODULES];
} ending;

static bool is_memory_alone(const zend_class_entry *class)
{
	while (class && class->type == ZEND_USER_CLASS) {
		class = class->parent;
	}
	for (size_t i = 0; class && i < CORE_MODULES; i++) {
		if (class->info.internal.module == ending.core[i]) {
			return !instanceof_function(class, spl_ce_SplFileInfo);
		}
	}
	return false;
}

static bool frees_more_than_memory(const zend_object *object)
{
	return object->handlers->free_obj != zend_object_std_dtor && !is_memory_alone(object->ce);
}

static void *must_have(void *memory)
{
	if (!memory) {
		reprise_boot_failed("there is no memory left for the snapshot", NULL);
	}
	return memory;
}

/* At the snapshot, in the template. The list is part of the snapshot. malloc keeps it out of PHP's memory limit. */
void reprise_note_objects(void)
{
	zend_objects_store *store = &EG(objects_store);

	ending.first_resource = EG(regular_list).nNextFreeElement;
	ending.persistent = EG(persistent_list).nNumUsed;
	ending.top = store->top;
	ending.objects = must_have(malloc(store->top * sizeof *ending.objects));
	memcpy(ending.objects, store->object_buckets, store->top * sizeof *ending.objects);
	for (size_t i = 0; i < CORE_MODULES; i++) {
		ending.core[i] = zend_hash_str_find_ptr(&module_registry, core_modules[i], strlen(core_modules[i]));
	}
}

static bool is_of_snapshot(const zend_object *object)
{
	return object->handle < ending.top && ending.objects[object->handle] == object;
}

/*
 * zend_call_destructors frees global variables that hold the only reference to an object. The rewind would undo that
 * for objects of the snapshot at once, so these get a reference meanwhile. Their destructors run like all others, in
 * the order in which the objects were made, after those of the request's own globals.
 */
void reprise_hold_globals_of_snapshot(bool begins)
{
	zval *value;

	ZEND_HASH_FOREACH_VAL_IND(&EG(symbol_table), value)
	{
		if (Z_TYPE_P(value) != IS_OBJECT || !is_of_snapshot(Z_OBJ_P(value))) {
			continue;
		}
		if (begins) {
			Z_ADDREF_P(value);
		} else {
			Z_DELREF_P(value);
		}
	}
	ZEND_HASH_FOREACH_END();
}

/* As zend_objects_store_free_object_storage. */
void reprise_free_objects(void)
{
	zend_objects_store *store = &EG(objects_store);

	for (uint32_t handle = store->top; handle-- > 1;) {
		zend_object *object = store->object_buckets[handle];
		if (!IS_OBJ_VALID(object) || !frees_more_than_memory(object) || (OBJ_FLAGS(object) & IS_OBJ_FREE_CALLED)) {
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
void reprise_close_resources(void)
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

/* Persistent resources, too: the rewind forgets them, so their connections have to be closed. */
void reprise_close_persistent(void)
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

/* Marks objects without a destructor: compact.c says why. */
void reprise_mark_destructed(void)
{
	const zend_objects_store *store = &EG(objects_store);

	for (uint32_t i = 1; i < store->top; i++) {
		zend_object *object = store->object_buckets[i];
		if (IS_OBJ_VALID(object) && object->handlers->dtor_obj == zend_objects_destroy_object
		    && !object->ce->destructor) {
			GC_ADD_FLAGS(object, IS_OBJ_DESTRUCTOR_CALLED);
		}
	}
}

void reprise_each_class_of_objects(void (*each)(const char *name))
{
	const zend_objects_store *store = &EG(objects_store);

	for (uint32_t i = 1; i < store->top; i++) {
		if (IS_OBJ_VALID(store->object_buckets[i])) {
			each(ZSTR_VAL(store->object_buckets[i]->ce->name));
		}
	}
}
