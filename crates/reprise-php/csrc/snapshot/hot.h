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
/* The page may differ from the image although no write to it was found; `is_there`: it has content of its own. */
void snapshot_put_back_if_changed(const struct region *region, uintptr_t page, bool is_there);
/* Whether a page of the range is to be watched. */
bool snapshot_is_watched(const struct region *region, uintptr_t start, uintptr_t end);
void snapshot_age(void); /* after each rewind */
/* Writes to each page that is not watched, without changing it. */
void snapshot_touch_unwatched(void);
/* The page is copied or zeroed no longer by each rewind; `state`: what it was. */
void snapshot_forget_hot_page(uintptr_t page, uint8_t state);
void snapshot_close_free(void); /* open pages become free ones again, and cost no memory */

#endif
