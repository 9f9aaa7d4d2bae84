/* ZendMM's lists of free slots, by size. */
#ifndef REPRISE_FREE_LISTS_H
#define REPRISE_FREE_LISTS_H

#include <stddef.h>

size_t engine_bin_count(void);
size_t engine_bin_size(size_t bin);
void *const *engine_free_lists(void); /* one head for each bin; NULL: not found, as with USE_ZEND_ALLOC=0 */

#endif
