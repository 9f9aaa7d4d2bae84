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
#include <zend_fibers.h>

#include <stdlib.h>
#include <string.h>

#include "../core/connections_state.h"
#include "objects.h"
#include "../core/boot_failure.h"
#include "../interpose/traffic.h"

/* Classes of these modules free memory alone. SPL's classes of files are the exception. */
static const char *const core_modules[] = {"core", "date", "reflection", "spl"};
#define CORE_MODULES (sizeof core_modules / sizeof *core_modules)

/* From 8.4 on fibers may switch in destructors. */
#if PHP_VERSION_ID >= 80400
#define REPRISE_BLOCK_FIBERS() ((void)0)
#define REPRISE_UNBLOCK_FIBERS() ((void)0)
#else
#define REPRISE_BLOCK_FIBERS() zend_fiber_switch_block()
#define REPRISE_UNBLOCK_FIBERS() zend_fiber_switch_unblock()
#endif

/* If a request frees more objects of the boot, all handles are looked at. */
#define MAX_CHANGED 128
/* Objects that hooks make, without new lists. */
#define ROOM_FOR_HOOKS 1024

static struct {
	zend_long first_resource;
	uint32_t persistent;
	uint32_t top, room; /* handles, and how many the lists have room for */
	zend_object **objects;
	const zend_class_entry **plain; /* the classes of objects that have nothing to do at the end of a request */
	uint32_t *ended;                /* the handles of all others */
	uint32_t ended_count;
	uint32_t changed[MAX_CHANGED]; /* handles whose plain object a request has freed */
	uint32_t changed_count;
	bool knows_changed;
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

/* A destructor, or what PHP has in its place: a generator runs its finally blocks. */
static bool has_destructor(const zend_object *object)
{
	return !(OBJ_FLAGS(object) & IS_OBJ_DESTRUCTOR_CALLED)
	       && (object->handlers->dtor_obj != zend_objects_destroy_object || object->ce->destructor);
}

static bool is_to_be_freed(const zend_object *object)
{
	return !(OBJ_FLAGS(object) & IS_OBJ_FREE_CALLED) && frees_more_than_memory(object);
}

/* Lists for so many handles, and for those of hooks. */
static void make_lists(uint32_t top)
{
	ending.ended_count = 0;
	if (top <= ending.room) {
		return;
	}
	free(ending.objects);
	free(ending.plain);
	free(ending.ended);
	ending.room = top + ROOM_FOR_HOOKS;
	ending.objects = must_have(calloc(ending.room, sizeof *ending.objects));
	ending.plain = must_have(calloc(ending.room, sizeof *ending.plain));
	ending.ended = must_have(calloc(ending.room, sizeof *ending.ended));
}

/* Nothing is written that is there already: a clone that has run hooks gets pages of its own for what differs. */
static void note_object(uint32_t handle, zend_object *object)
{
	bool is_there = handle > 0 && IS_OBJ_VALID(object);
	bool ends = is_there && (has_destructor(object) || is_to_be_freed(object));
	const zend_class_entry *plain =
	    is_there && !ends && (OBJ_FLAGS(object) & IS_OBJ_DESTRUCTOR_CALLED) ? object->ce : NULL;

	if (ending.objects[handle] != object) {
		ending.objects[handle] = object;
	}
	if (ending.plain[handle] != plain) {
		ending.plain[handle] = plain;
	}
	if (ends) {
		if (ending.ended[ending.ended_count] != handle) {
			ending.ended[ending.ended_count] = handle;
		}
		ending.ended_count++;
	}
}

/* An object that a hook has made, and that closes something when it is freed, is not freed when a request drops its
 * last reference: the next request finds the connection open. */
void engine_hold_new_objects(void)
{
	const zend_objects_store *store = &EG(objects_store);

	for (uint32_t handle = ending.top; handle < store->top; handle++) {
		zend_object *object = store->object_buckets[handle];
		if (IS_OBJ_VALID(object) && frees_more_than_memory(object)) {
			GC_ADDREF(object);
		}
	}
}

/* At the snapshot, in the template, and again when a clone has run hooks. The lists are part of the snapshot. malloc
 * keeps them out of PHP's memory limit. */
void engine_note_objects(void)
{
	zend_objects_store *store = &EG(objects_store);

	for (size_t i = 0; i < CORE_MODULES; i++) {
		ending.core[i] = zend_hash_str_find_ptr(&module_registry, core_modules[i], strlen(core_modules[i]));
	}
	ending.first_resource = EG(regular_list).nNextFreeElement;
	ending.persistent = EG(persistent_list).nNumUsed;
	ending.top = store->top;
	/* Objects of a request get handles above those of the snapshot. */
	store->free_list_head = -1;
	make_lists(store->top);
	for (uint32_t handle = 0; handle < store->top; handle++) {
		note_object(handle, store->object_buckets[handle]);
	}
}

static bool is_of_snapshot(const zend_object *object)
{
	return object->handle < ending.top && ending.objects[object->handle] == object;
}

/* As zval_call_destructor: a global that holds the only reference to an object. The rewind would undo that for an
 * object of the snapshot at once, so these stay. Their destructors run like all others, in the order in which the
 * objects were made. */
static int end_global(zval *value)
{
	if (Z_TYPE_P(value) == IS_INDIRECT) {
		value = Z_INDIRECT_P(value);
	}
	return Z_TYPE_P(value) == IS_OBJECT && Z_REFCOUNT_P(value) == 1 && !is_of_snapshot(Z_OBJ_P(value))
	           ? ZEND_HASH_APPLY_REMOVE
	           : ZEND_HASH_APPLY_KEEP;
}

/* As zend_unclean_zval_ptr_dtor. */
static void end_value(zval *value)
{
	i_zval_ptr_dtor(Z_TYPE_P(value) == IS_INDIRECT ? Z_INDIRECT_P(value) : value);
}

static void destruct(uint32_t handle)
{
	zend_object *object = EG(objects_store).object_buckets[handle];

	if (!IS_OBJ_VALID(object) || (OBJ_FLAGS(object) & IS_OBJ_DESTRUCTOR_CALLED)) {
		return;
	}
	GC_ADD_FLAGS(object, IS_OBJ_DESTRUCTOR_CALLED);
	if (object->handlers->dtor_obj != zend_objects_destroy_object || object->ce->destructor) {
		GC_ADDREF(object);
		object->handlers->dtor_obj(object);
		GC_DELREF(object);
	}
}

static void free_object(uint32_t handle)
{
	zend_object *object = EG(objects_store).object_buckets[handle];

	if (!IS_OBJ_VALID(object) || !is_to_be_freed(object)) {
		return;
	}
	GC_ADD_FLAGS(object, IS_OBJ_FREE_CALLED);
	GC_ADDREF(object);
	zend_try
	{
		object->handlers->free_obj(object);
	}
	zend_end_try();
}

/* A new object is not marked as destructed (only one whose constructor failed is), or it has another class. */
static bool is_plain_still(uint32_t handle)
{
	const zend_object *object = EG(objects_store).object_buckets[handle];

	return object == ending.objects[handle] && object->ce == ending.plain[handle]
	       && (OBJ_FLAGS(object) & IS_OBJ_DESTRUCTOR_CALLED);
}

/*
 * If a request frees an object of the boot, PHP gives its handle, and often its memory, to the next object. So each
 * object that had nothing to do at the end is looked at.
 */
static void find_changed(void)
{
	const uint32_t ahead = 8;

	ending.changed_count = 0;
	for (uint32_t handle = 1; handle < ending.top; handle++) {
		if (handle + ahead < ending.top) {
			__builtin_prefetch(ending.objects[handle + ahead]);
		}
		if (ending.plain[handle] && !is_plain_still(handle)) {
			if (ending.changed_count == MAX_CHANGED) {
				return;
			}
			ending.changed[ending.changed_count++] = handle;
		}
	}
	ending.knows_changed = true;
}

/* Handles of the snapshot that are to be looked at, upwards. */
static void destruct_handles_of_snapshot(void)
{
	uint32_t ended = 0, changed = 0;

	for (uint32_t handle = 1; !ending.knows_changed && handle < ending.top; handle++) {
		destruct(handle);
	}
	while (ending.knows_changed && (ended < ending.ended_count || changed < ending.changed_count)) {
		bool is_changed = ended == ending.ended_count
		                  || (changed < ending.changed_count && ending.changed[changed] < ending.ended[ended]);
		destruct(is_changed ? ending.changed[changed++] : ending.ended[ended++]);
	}
}

/* The same, downwards. */
static void free_handles_of_snapshot(void)
{
	uint32_t ended = ending.ended_count, changed = ending.changed_count;

	/* The rewind puts a connection's object back, so the connection stays open. */
	interpose_connections_hold(true);
	for (uint32_t handle = ending.top; !ending.knows_changed && handle-- > 1;) {
		free_object(handle);
	}
	while (ending.knows_changed && (ended > 0 || changed > 0)) {
		bool is_changed = ended == 0 || (changed > 0 && ending.changed[changed - 1] > ending.ended[ended - 1]);
		free_object(is_changed ? ending.changed[--changed] : ending.ended[--ended]);
	}
	interpose_connections_hold(false);
}

/* As shutdown_destructors and zend_objects_store_call_destructors. */
static void call_destructors(void)
{
	uint32_t symbols;

	if (CG(unclean_shutdown)) {
		EG(symbol_table).pDestructor = end_value;
	}
	do {
		symbols = zend_hash_num_elements(&EG(symbol_table));
		zend_hash_reverse_apply(&EG(symbol_table), end_global);
	} while (symbols != zend_hash_num_elements(&EG(symbol_table)));
	EG(flags) |= EG_FLAGS_OBJECT_STORE_NO_REUSE;
	REPRISE_BLOCK_FIBERS();
	/* From here on no handle is used again, so what is found holds to the end. */
	find_changed();
	destruct_handles_of_snapshot();
	/* A destructor may make more objects. */
	for (uint32_t handle = ending.top; handle < EG(objects_store).top; handle++) {
		destruct(handle);
	}
	REPRISE_UNBLOCK_FIBERS();
}

void engine_call_destructors(void)
{
	zend_try
	{
		call_destructors();
	}
	zend_catch
	{
		zend_objects_store_mark_destructed(&EG(objects_store));
	}
	zend_end_try();
}

/* As zend_objects_store_free_object_storage. */
void engine_free_objects(void)
{
	for (uint32_t handle = EG(objects_store).top; handle-- > ending.top;) {
		free_object(handle);
	}
	free_handles_of_snapshot();
}

/* As zend_close_rsrc_list, for resources made since the snapshot. */
void engine_close_resources(void)
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
void engine_close_persistent(void)
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
void engine_mark_destructed(void)
{
	const zend_objects_store *store = &EG(objects_store);

	for (uint32_t i = 1; i < store->top; i++) {
		zend_object *object = store->object_buckets[i];
		if (IS_OBJ_VALID(object) && object->handlers->dtor_obj == zend_objects_destroy_object && !object->ce->destructor
		    && !(OBJ_FLAGS(object) & IS_OBJ_DESTRUCTOR_CALLED)) {
			GC_ADD_FLAGS(object, IS_OBJ_DESTRUCTOR_CALLED);
		}
	}
}

void engine_each_class_of_objects(void (*each)(const char *name))
{
	const zend_objects_store *store = &EG(objects_store);

	for (uint32_t i = 1; i < store->top; i++) {
		if (IS_OBJ_VALID(store->object_buckets[i])) {
			each(ZSTR_VAL(store->object_buckets[i]->ce->name));
		}
	}
}
