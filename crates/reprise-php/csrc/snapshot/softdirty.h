/* Soft-dirty bits, and what needs.c tries of them. On any stack. */
#ifndef REPRISE_SOFTDIRTY_H
#define REPRISE_SOFTDIRTY_H

#include <stdbool.h>

/* Opens /proc/self/clear_refs: a descriptor, or a negative errno. */
long snapshot_soft_dirty_open(void);
/* Clears the bits of the whole process. */
bool snapshot_soft_dirty_clear(int clear_refs);
bool snapshot_soft_dirty_is_marked(int pagemap, const volatile unsigned char *page);

/* Writes to pages and looks whether that shows. 0, or which step does not do what it has to: enum softdirty_step. */
int snapshot_soft_dirty_try(int pagemap, int clear_refs);

enum softdirty_step {
	SOFTDIRTY_WORKS,
	SOFTDIRTY_NO_MEMORY, /* to try it with */
	SOFTDIRTY_NO_CLEAR,  /* clear_refs refuses */
	SOFTDIRTY_STAYS,     /* bits are not cleared */
	SOFTDIRTY_UNMARKED,  /* a write does not show */
	SOFTDIRTY_UNCOUNTED, /* a first write is not counted as a fault */
	SOFTDIRTY_COUNTED,   /* a second one is */
	SOFTDIRTY_KERNEL,    /* a write by the kernel does not show */
	SOFTDIRTY_CHILD,     /* a page that a child has from its parent does not show */
	SOFTDIRTY_MPROTECT   /* a write after mprotect does not show */
};

#endif
