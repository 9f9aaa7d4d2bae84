/* Puts the heaps in order before the snapshot. On PHP's stack. */
#ifndef REPRISE_COMPACT_H
#define REPRISE_COMPACT_H

#include <stdbool.h>

bool snapshot_collect_cycles(void); /* false: an exception is pending */
void snapshot_compact(void);
void snapshot_keep_free_slots(void);
void snapshot_make_room(void); /* in libc's heap */

#endif
