/*
 * Room for PHP's heap beyond what the boot has used: addresses that are a part of the snapshot and have no pages until
 * a request writes to them. Without it each request that needs more than the boot maps the rest anew, and each of those
 * pages is a fault, for which a rewind has to look at all memory. A process of PHP-FPM keeps such chunks, too.
 *
 * ZendMM gets its chunks and its blocks of more than a chunk from here (zend_mm_storage), and from the kernel when
 * there is no room left. The slots in use are noted in memory that rewinds put back. What lies in the others is free
 * memory, like the free pages of chunks: it is left as it is, and nobody reads it.
 */
#define _GNU_SOURCE
#include <php.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "heap.h"

#define SLOT ((uintptr_t)ZEND_MM_CHUNK_SIZE)
#define PAGE ((uintptr_t)ZEND_MM_PAGE_SIZE)
#define SLOTS ((size_t)16) /* 32 MiB */
/* The heap's pointer to its storage is among so many words at its beginning. */
#define SEARCHED_WORDS 8

_Static_assert(SLOTS <= 32, "a bit for each slot");

/* ZendMM calls the functions of its storage only if there is a room. */
static struct {
	uintptr_t start; /* 0: there is none */
	uint32_t used;   /* a bit for each slot */
} room;

static uint32_t bits(size_t first, size_t slots)
{
	return (uint32_t)(((UINT64_C(1) << slots) - 1) << first);
}

static size_t slots_of(size_t size)
{
	return size / SLOT + (size % SLOT != 0);
}

static bool is_in_room(const void *block)
{
	return (uintptr_t)block - room.start < SLOTS * SLOT;
}

static size_t slot_of(const void *block)
{
	return ((uintptr_t)block - room.start) / SLOT;
}

static void *map(void *at, size_t size, int flags)
{
	void *made = mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	return made == MAP_FAILED ? NULL : made;
}

/* NULL: there is no memory. */
static void *map_aligned(size_t size, size_t alignment)
{
	char *block = map(NULL, size, 0);

	if (!block || (uintptr_t)block % alignment == 0) {
		return block;
	}
	munmap(block, size);
	if (size > SIZE_MAX - alignment || !(block = map(NULL, size + alignment, 0))) {
		return NULL;
	}
	size_t before = (alignment - (uintptr_t)block % alignment) % alignment;
	if (before) {
		munmap(block, before);
	}
	munmap(block + before + size, alignment - before);
	return block + before;
}

static void *allocate(zend_mm_storage *storage, size_t size, size_t alignment)
{
	size_t slots = slots_of(size);

	for (size_t first = 0; alignment <= SLOT && first + slots <= SLOTS; first++) {
		if (room.used & bits(first, slots)) {
			continue;
		}
		room.used |= bits(first, slots);
		void *block = (void *)(room.start + first * SLOT);
		/* The header of a chunk is expected to be new. */
		memset(block, 0, PAGE);
		return block;
	}
	return map_aligned(size, alignment);
}

static void give_back(zend_mm_storage *storage, void *block, size_t size)
{
	if (is_in_room(block)) {
		room.used &= ~bits(slot_of(block), slots_of(size));
	} else {
		munmap(block, size);
	}
}

/* Both sizes are multiples of a page. */
static bool truncate_block(zend_mm_storage *storage, void *block, size_t size, size_t new_size)
{
	if (is_in_room(block)) {
		size_t had = slots_of(size), keeps = slots_of(new_size);
		room.used &= ~bits(slot_of(block) + keeps, had - keeps);
	} else {
		munmap((char *)block + new_size, size - new_size);
	}
	return true;
}

/* False: there is no room behind the block, and ZendMM copies it. */
static bool extend_block(zend_mm_storage *storage, void *block, size_t size, size_t new_size)
{
	if (!is_in_room(block)) {
		return map((char *)block + size, new_size - size, MAP_FIXED_NOREPLACE) != NULL;
	}
	size_t first = slot_of(block), had = slots_of(size), needs = slots_of(new_size);
	if (needs > SLOTS - first || (room.used & bits(first + had, needs - had))) {
		return false;
	}
	room.used |= bits(first + had, needs - had);
	return true;
}

/* Nobody writes to it: memory for addresses of functions is better read-only. */
static const zend_mm_storage storage = {
    .handlers = {allocate, give_back, truncate_block, extend_block},
};

/* PHP's headers do not tell where the heap has the pointer: it is where zend_mm_get_storage() reads it. */
static bool install(void)
{
	zend_mm_heap *heap = zend_mm_get_heap();
	const zend_mm_storage **words = (const zend_mm_storage **)heap;

	for (size_t at = 0; at < SEARCHED_WORDS; at++) {
		if (words[at]) {
			continue;
		}
		words[at] = &storage;
		if (zend_mm_get_storage(heap) == &storage) {
			return true;
		}
		words[at] = NULL;
	}
	return false;
}

bool engine_heap_make_room(void)
{
	zend_mm_heap *heap = zend_mm_get_heap();

	if (room.start) {
		return true;
	}
	/* With huge pages ZendMM treats its mappings in a way of its own. */
	const char *huge = getenv("USE_ZEND_ALLOC_HUGE_PAGES");
	if (!is_zend_mm() || zend_mm_get_storage(heap) || (huge && atoi(huge))) {
		return false;
	}
	room.start = (uintptr_t)map_aligned(SLOTS * SLOT, SLOT);
	if (room.start && !install()) {
		munmap((void *)room.start, SLOTS * SLOT);
		room.start = 0;
	}
	return room.start != 0;
}

void engine_heap_each_free_slot(reprise_heap_visitor visit, void *context)
{
	for (size_t slot = 0; room.start && slot < SLOTS; slot++) {
		if (!(room.used & bits(slot, 1))) {
			visit(room.start + slot * SLOT, room.start + (slot + 1) * SLOT, context);
		}
	}
}
