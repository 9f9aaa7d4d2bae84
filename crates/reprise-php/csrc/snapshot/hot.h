/* Pages that are not protected: hot ones, and those that were free at the snapshot. On the service stack. */
#ifndef REPRISE_HOT_H
#define REPRISE_HOT_H

#include <stdbool.h>
#include <stdint.h>

#include "snapshot.h"

void reprise_pin(uintptr_t start, uintptr_t end); /* these pages are always copied, and never protected */
void reprise_copy_region(const struct region *region, uintptr_t from, uintptr_t to);
void reprise_copy_hot(void);
/* A page was found written. True: it is not to be protected again. */
bool reprise_put_back(const struct region *region, uintptr_t page);
void reprise_age(void); /* after each rewind */
/* The page is copied or zeroed no longer by each rewind; `state`: what it was. */
void reprise_forget_hot_page(uintptr_t page, uint8_t state);
void reprise_close_free(void); /* open pages become free ones again, and cost no memory */

#endif
