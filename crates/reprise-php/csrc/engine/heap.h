/* ZendMM's heap: which of its pages are free, and how much of it PHP says is used. */
#ifndef REPRISE_HEAP_H
#define REPRISE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct engine_heap_usage {
	size_t now, peak; /* bytes: memory_get_usage() and memory_get_peak_usage() */
};

/* On PHP's stack: gives runs whose slots are all free back to ZendMM, as gc_mem_caches(). */
void engine_heap_collect(void);

/* On PHP's stack, in the template: finds out where ZendMM keeps its maps. Without it, no page is known to be free. */
void engine_heap_look(void);

/* On PHP's stack. */
struct engine_heap_usage engine_heap_usage(void);
void engine_heap_set_usage(struct engine_heap_usage usage);

/* Calls `visit` for each range of free memory. It calls no function of PHP, so it may run on the service stack. False:
 * the heap is not as expected, and nothing can be said to be free. */
typedef void (*reprise_heap_visitor)(uintptr_t start, uintptr_t end, void *context);
bool engine_heap_each_free(reprise_heap_visitor visit, void *context);

/* On PHP's stack, in the template: addresses for what requests need beyond the heap of the boot (heap_room.c). False:
 * ZendMM maps each chunk. */
bool engine_heap_make_room(void);
void engine_heap_each_free_slot(reprise_heap_visitor visit, void *context); /* of that room */

#endif
