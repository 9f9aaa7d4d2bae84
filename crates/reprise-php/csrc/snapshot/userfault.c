/*
 * Written pages by an asynchronous userfaultfd (Linux 6.7): single ranges are write-protected, and PAGEMAP_SCAN lists
 * what was written of them. On the service stack.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>

#include "../core/descriptors.h"
#include "../core/options.h"
#include "../core/raw.h"
#include "../core/snapshot_state.h"
#include "userfault.h"
#include "ways.h"

/* The headers of Debian 12 do not have these, so the values are those of the kernel's include/uapi/linux/fs.h. */
struct scan_arguments {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};

#define SCAN_PAGES _IOWR('f', 16, struct scan_arguments)
#define SCAN_CHECK_WPASYNC (1 << 1)
#define SCAN_WPALLOWED (1 << 0)
#define SCAN_WRITTEN (1 << 1)

#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_ASYNC (1 << 15)
#define UFFD_FEATURE_WP_UNPOPULATED (1 << 13)
#endif

/* By the system call, or by the device if there is one: a container's profile may deny one and allow the other. */
long snapshot_userfault_open(void)
{
	long descriptor = RAW1(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);

	if (descriptor < 0 && reprise_options.userfaultfd >= 0) {
		long made = RAW3(SYS_ioctl, reprise_options.userfaultfd, USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK);
		descriptor = made < 0 ? descriptor : made;
	}
	return descriptor;
}

long snapshot_userfault_set_up(int descriptor)
{
	struct uffdio_api api = {
	    .api = UFFD_API,
	    .features = UFFD_FEATURE_WP_ASYNC | UFFD_FEATURE_WP_UNPOPULATED | UFFD_FEATURE_PAGEFAULT_FLAG_WP,
	};

	return RAW3(SYS_ioctl, descriptor, UFFDIO_API, &api);
}

static bool write_protect(uintptr_t start, uintptr_t end, uint64_t mode)
{
	struct uffdio_writeprotect range = {.range = {start, end - start}, .mode = mode};

	return RAW3(SYS_ioctl, snapshot->watch.descriptor, UFFDIO_WRITEPROTECT, &range) >= 0;
}

static bool protect(uintptr_t start, uintptr_t end)
{
	return write_protect(start, end, UFFDIO_WRITEPROTECT_MODE_WP);
}

static bool unprotect(uintptr_t start, uintptr_t end)
{
	return write_protect(start, end, 0);
}

static bool set_up_range(uintptr_t start, uintptr_t end)
{
	struct uffdio_register range = {.range = {start, end - start}, .mode = UFFDIO_REGISTER_MODE_WP};

	return RAW3(SYS_ioctl, snapshot->watch.descriptor, UFFDIO_REGISTER, &range) >= 0;
}

/* A userfaultfd that is set up refuses a second set-up with EINVAL. Any other descriptor gives another error. */
static const char *is_replaced(bool has_searched)
{
	struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_WP_ASYNC};

	return has_searched || RAW3(SYS_ioctl, snapshot->watch.descriptor, UFFDIO_API, &api) == -EINVAL
	           ? NULL
	           : "the userfaultfd was closed or replaced";
}

/* With `strict` it fails if a page is not watched. */
static long scan(int pagemap, uint64_t *from, uint64_t end, struct page_range *found, size_t room, bool strict)
{
	struct scan_arguments arguments = {
	    .size = sizeof arguments,
	    .flags = strict ? SCAN_CHECK_WPASYNC : 0,
	    .start = *from,
	    .end = end,
	    .vec = (uint64_t)(uintptr_t)found,
	    .vec_len = room,
	    /* WRITTEN alone is faster, and lists pages that are not watched. */
	    .category_mask = strict ? SCAN_WRITTEN : SCAN_WRITTEN | SCAN_WPALLOWED,
	    .return_mask = SCAN_WRITTEN,
	};
	long count = RAW3(SYS_ioctl, pagemap, SCAN_PAGES, &arguments);

	*from = count < 0 ? end : arguments.walk_end;
	return count;
}

static long find(uint64_t *from, uint64_t end, struct page_range *found, size_t room, bool strict)
{
	return scan(snapshot->kernel.pagemap, from, end, found, room, strict);
}

long snapshot_userfault_try_search(int pagemap)
{
	struct page_range range;
	uint64_t from = (uint64_t)(uintptr_t)&range & ~(uint64_t)(PAGE - 1);

	return scan(pagemap, &from, from + PAGE, &range, 1, false);
}

static const char *arm(void)
{
	long descriptor = snapshot_userfault_open();

	if (descriptor < 0) {
		return "no userfaultfd can be opened";
	}
	snapshot->watch.descriptor = reprise_lift((int)descriptor);
	if (snapshot_userfault_set_up(snapshot->watch.descriptor) < 0 || is_replaced(false)) {
		return "the userfaultfd cannot be set up";
	}
	for (size_t i = 0; i < snapshot->image.region_count; i++) {
		const struct region *region = &snapshot->image.regions[i];
		if (!set_up_range(region->start, region->end) || !protect(region->start, region->end)) {
			return "memory cannot be watched";
		}
	}
	return NULL;
}

static bool end(void)
{
	return false;
}

const struct watch_way snapshot_by_userfaultfd = {
    .isolation = ipc_Isolation_Userfaultfd,
    .arm = arm,
    .adopt = set_up_range,
    .watch = protect,
    .release = unprotect,
    .find = find,
    .spans = true,
    .meddled = is_replaced,
    .end = end,
};
