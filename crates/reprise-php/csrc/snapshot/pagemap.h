/* /proc/self/pagemap: eight bytes for each page (the kernel's Documentation/admin-guide/mm/pagemap.rst). On any stack.
 */
#ifndef REPRISE_PAGEMAP_H
#define REPRISE_PAGEMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ways.h"

#define ENTRY_SOFT_DIRTY (UINT64_C(1) << 55)
#define ENTRY_SWAPPED (UINT64_C(1) << 62)
#define ENTRY_PRESENT (UINT64_C(1) << 63)

/* What kind of page that is; 0: it is not looked for. */
typedef uint64_t (*page_kind)(uint64_t entry);

/* Ranges of pages of one kind from *from on; sets *from to the end of the search. Their number, or a negative errno. */
long snapshot_find_pages(int pagemap, uint64_t *from, uint64_t end, struct page_range *found, size_t room,
                         page_kind kind);

#endif
