/* Puts the heaps in order before the snapshot. On PHP's stack. */
#ifndef REPRISE_COMPACT_H
#define REPRISE_COMPACT_H

#include <stdbool.h>

bool reprise_collect_cycles(void); /* false: an exception is pending */
void reprise_compact(void);
void reprise_keep_free_slots(void);
void reprise_make_room(void); /* in libc's heap */

#endif
