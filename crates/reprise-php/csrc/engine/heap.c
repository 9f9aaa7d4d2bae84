/*
 * ZendMM's heap. It consists of chunks of 2 MiB, each aligned to its size. The first page of a chunk is its header. The
 * header of the main chunk contains the heap itself.
 *
 *   chunk: heap, next, previous (pointers); free pages, free pages at the end, number (uint32_t); from byte 64 on the
 *          heap, if it is the main chunk; then a bit for each page (set: in use), then four bytes for each page
 *   heap:  ...; size, peak; ...; the heads of free lists; ...; main chunk, cached chunks (pointers); number of chunks,
 *          peak of that, number of cached chunks (int)
 *
 * This order is the same in all versions; what lies at "..." is not. PHP's headers do not tell where the parts are.
 * They are found by what ZendMM does, as in free_lists.c: a block of two pages that is allocated shows in the map, and
 * no longer shows when it is freed. What is found is checked again each time that it is used: the chunks form a ring,
 * all name the heap, and their free pages add up.
 */
#include <php.h>
#include <zend_alloc_sizes.h>
#include <zend_arena.h>

#include <string.h>

#include "heap.h"

#define CHUNK ((uintptr_t)ZEND_MM_CHUNK_SIZE)
#define UNIT ((uintptr_t)ZEND_MM_PAGE_SIZE)
#define PAGES_PER_CHUNK (ZEND_MM_CHUNK_SIZE / ZEND_MM_PAGE_SIZE)
#define MAP_WORDS (PAGES_PER_CHUNK / 64)
/* What the map says of the first page of a block of so many pages. */
#define LARGE_RUN(pages) (UINT32_C(0x40000000) | (uint32_t)(pages))
/* The heap lies here in the main chunk. */
#define HEAP_OFFSET 64
/* A process with so many chunks has 64 GiB of heap. */
#define MAX_CHUNKS 32768

struct chunk {
	const void *heap;
	const struct chunk *next, *previous;
	uint32_t free_pages, free_tail, number;
};

_Static_assert(sizeof(struct chunk) <= HEAP_OFFSET, "the heap follows");
_Static_assert(PAGES_PER_CHUNK % 64 == 0, "the map of pages has whole words");

static struct {
	uintptr_t main; /* the main chunk */
	/* Offsets in bytes from a chunk's start. 0: not known. */
	size_t page_map; /* bits */
	size_t chunks;   /* the pointer to the main chunk, and what follows it */
	size_t usage;    /* size and peak */
} layout;

static uint64_t word_at(uintptr_t chunk, size_t offset)
{
	return *(const uint64_t *)(chunk + offset);
}

static bool is_used(uintptr_t chunk, size_t page_map, size_t page)
{
	return (word_at(chunk, page_map + page / 64 * 8) >> (page % 64)) & 1;
}

static bool are_all(uintptr_t block, size_t pages, size_t page_map, bool used)
{
	uintptr_t chunk = block & ~(CHUNK - 1);
	size_t first = (block - chunk) / UNIT;

	for (size_t i = 0; i < pages; i++) {
		if (is_used(chunk, page_map, first + i) != used) {
			return false;
		}
	}
	return true;
}

/* Three blocks of different sizes show at the same place, or nothing is known. */
static size_t find_page_map(void)
{
	static const size_t sizes[] = {2, 3, 5};
	const size_t last = UNIT - PAGES_PER_CHUNK * sizeof(uint32_t);
	size_t found = 0, candidates = 0;
	uintptr_t blocks[3];

	for (size_t i = 0; i < 3; i++) {
		blocks[i] = (uintptr_t)emalloc(sizes[i] * UNIT);
	}
	for (size_t map = HEAP_OFFSET + MAP_WORDS * 8; map <= last; map += 8) {
		bool all = true;
		for (size_t i = 0; i < 3 && all; i++) {
			uintptr_t chunk = blocks[i] & ~(CHUNK - 1);
			size_t page = (blocks[i] - chunk) / UNIT;
			all = page + sizes[i] <= PAGES_PER_CHUNK && ((const uint32_t *)(chunk + map))[page] == LARGE_RUN(sizes[i])
			      && are_all(blocks[i], sizes[i], map - MAP_WORDS * 8, true);
		}
		if (all) {
			found = map - MAP_WORDS * 8;
			candidates++;
		}
	}
	for (size_t i = 0; i < 3; i++) {
		efree((void *)blocks[i]);
		/* What was freed before may have been freed together with a whole chunk. */
		if (candidates == 1 && (blocks[i] & ~(CHUNK - 1)) == layout.main
		    && !are_all(blocks[i], sizes[i], found, false)) {
			candidates = 0;
		}
	}
	return candidates == 1 ? found : 0;
}

static const struct chunk *cached_chunks(void)
{
	return *(const struct chunk *const *)(layout.main + layout.chunks + 8);
}

static uint32_t chunk_count(void)
{
	return (uint32_t)word_at(layout.main, layout.chunks + 16);
}

static uint32_t cached_count(void)
{
	return (uint32_t)word_at(layout.main, layout.chunks + 24);
}

static bool is_chunk(const struct chunk *chunk)
{
	return chunk && (uintptr_t)chunk % CHUNK == 0;
}

static uint32_t count_free(uintptr_t chunk)
{
	uint32_t used = 0;

	for (size_t i = 0; i < MAP_WORDS; i++) {
		used += (uint32_t)__builtin_popcountll(word_at(chunk, layout.page_map + i * 8));
	}
	return PAGES_PER_CHUNK - used;
}

/* The ring of chunks and the list of cached chunks are as the heap says, and so are the free pages of each. */
static bool is_consistent(void)
{
	const struct chunk *first = (const struct chunk *)layout.main, *chunk = first;
	uint32_t count = 0;

	do {
		if (!is_chunk(chunk) || chunk->heap != (const char *)first + HEAP_OFFSET || !is_chunk(chunk->next)
		    || chunk->next->previous != chunk || chunk->free_pages != count_free((uintptr_t)chunk)
		    || !is_used((uintptr_t)chunk, layout.page_map, 0) || ++count > MAX_CHUNKS) {
			return false;
		}
		chunk = chunk->next;
	} while (chunk != first);
	if (count != chunk_count()) {
		return false;
	}
	count = 0;
	for (chunk = cached_chunks(); chunk; chunk = chunk->next) {
		if (!is_chunk(chunk) || ++count > MAX_CHUNKS) {
			return false;
		}
	}
	return count == cached_count();
}

static size_t find_chunks(void)
{
	size_t found = 0, candidates = 0;

	for (size_t at = HEAP_OFFSET; at + 32 <= layout.page_map; at += 8) {
		if (word_at(layout.main, at) != layout.main) {
			continue;
		}
		layout.chunks = at;
		if (is_consistent()) {
			found = at;
			candidates++;
		}
	}
	return candidates == 1 ? found : 0;
}

static size_t find_usage(void)
{
	for (size_t at = HEAP_OFFSET; at + 16 <= layout.page_map; at += 8) {
		void *block = emalloc(UNIT);
		bool is_with = word_at(layout.main, at) == zend_memory_usage(false)
		               && word_at(layout.main, at + 8) == zend_memory_peak_usage(false);
		efree(block);
		if (is_with && word_at(layout.main, at) == zend_memory_usage(false)) {
			return at;
		}
	}
	return 0;
}

void engine_heap_collect(void)
{
	zend_mm_gc(zend_mm_get_heap());
}

void engine_heap_look(void)
{
	memset(&layout, 0, sizeof layout);
	layout.main = (uintptr_t)zend_mm_get_heap() & ~(CHUNK - 1);
	if (!is_zend_mm() || (uintptr_t)zend_mm_get_heap() % CHUNK != HEAP_OFFSET) {
		return;
	}
	layout.page_map = find_page_map();
	if (layout.page_map) {
		layout.chunks = find_chunks();
		layout.usage = find_usage();
	}
}

struct engine_heap_usage engine_heap_usage(void)
{
	return (struct engine_heap_usage){zend_memory_usage(false), zend_memory_peak_usage(false)};
}

void engine_heap_set_usage(struct engine_heap_usage usage)
{
	if (layout.usage) {
		size_t *words = (size_t *)(layout.main + layout.usage);
		words[0] = usage.now;
		words[1] = usage.peak;
	}
}

static void visit_chunk(uintptr_t chunk, reprise_heap_visitor visit, void *context)
{
	size_t page = 1;

	while (page < PAGES_PER_CHUNK) {
		size_t first = page;
		while (page < PAGES_PER_CHUNK && !is_used(chunk, layout.page_map, page)) {
			page++;
		}
		if (page > first) {
			visit(chunk + first * UNIT, chunk + page * UNIT, context);
		}
		page++;
	}
}

bool engine_heap_each_free(reprise_heap_visitor visit, void *context)
{
	const struct chunk *first, *chunk;

	if (!layout.chunks || !is_consistent()) {
		return false;
	}
	chunk = first = (const struct chunk *)layout.main;
	do {
		visit_chunk((uintptr_t)chunk, visit, context);
		chunk = chunk->next;
	} while (chunk != first);
	/* Of a chunk that ZendMM keeps for later, the first page alone is used. */
	for (chunk = cached_chunks(); chunk; chunk = chunk->next) {
		visit((uintptr_t)chunk + UNIT, (uintptr_t)chunk + CHUNK, context);
	}
	engine_heap_each_free_slot(visit, context);
	/* PHP writes to both before it reads. */
	visit((uintptr_t)EG(vm_stack_top), (uintptr_t)EG(vm_stack_end), context);
	visit((uintptr_t)CG(arena)->ptr, (uintptr_t)CG(arena)->end, context);
	return true;
}
