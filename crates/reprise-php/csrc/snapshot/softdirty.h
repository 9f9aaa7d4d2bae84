/* What needs.c tries of soft-dirty bits. */
#ifndef REPRISE_SOFTDIRTY_H
#define REPRISE_SOFTDIRTY_H

/* Opens /proc/self/clear_refs: a descriptor, or a negative errno. */
long snapshot_soft_dirty_open(void);

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
	SOFTDIRTY_CHILD      /* a page that a child has from its parent does not show */
};

#endif
