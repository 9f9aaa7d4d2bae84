/* Pages that are not protected: hot ones, and those that were free at the snapshot. On the service stack. */
#ifndef REPRISE_HOT_H
#define REPRISE_HOT_H

#include <stdbool.h>
#include <stdint.h>

#include "../core/snapshot_state.h"

void snapshot_pin(uintptr_t start, uintptr_t end); /* these pages are always copied, and never protected */
void snapshot_copy_hot(void);
/* A page was found written. True: it is not to be protected again. */
bool snapshot_put_back(const struct region *region, uintptr_t page);
/* The page was found not to be there. */
void snapshot_put_back_absent(const struct region *region, uintptr_t page);
void snapshot_age(void); /* after each rewind */
/* Writes to each page that is not watched, without changing it. */
void snapshot_touch_unwatched(void);
/* The page is copied or zeroed no longer by each rewind; `state`: what it was. */
void snapshot_forget_hot_page(uintptr_t page, uint8_t state);
void snapshot_close_free(void); /* open pages become free ones again, and cost no memory */

#endif
