/* Pages are copied from the image, without the bytes that each clone has for itself. On the service stack. */
#include "pages.h"
#include "../core/raw.h"
#include "../core/snapshot_state.h"

/* Copies a page, without the bytes that each clone has for itself. */
void snapshot_copy_around_identity(unsigned char *page, const unsigned char *image)
{
	uintptr_t at = (uintptr_t)page, end = at + PAGE;

	while (at < end) {
		uintptr_t stop = end, next = end;
		for (size_t i = 0; i < IDENTITIES; i++) {
			const struct range *own = &snapshot->image.identity[i];
			if (own->end > at && own->start < stop) {
				stop = own->start > at ? own->start : at;
				next = own->end;
			}
		}
		raw_copy((void *)at, image + (at - (uintptr_t)page), stop - at);
		at = next;
	}
}

static bool has_identity(uintptr_t page)
{
	for (size_t i = 0; i < IDENTITIES; i++) {
		if (snapshot->image.identity[i].start < page + PAGE && snapshot->image.identity[i].end > page) {
			return true;
		}
	}
	return false;
}

void snapshot_copy_region(const struct region *region, uintptr_t from, uintptr_t to)
{
	for (uintptr_t page = from; page < to; page += PAGE) {
		if (has_identity(page)) {
			snapshot_copy_around_identity((unsigned char *)page, image_of(region, page));
		} else {
			copy_page((unsigned char *)page, image_of(region, page));
		}
	}
}
