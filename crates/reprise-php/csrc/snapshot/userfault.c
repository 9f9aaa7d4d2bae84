/*
 * Write protection by an asynchronous userfaultfd: the first write to a page is a page fault, which the kernel resolves
 * and counts. On the service stack.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "../core/options.h"
#include "../core/raw.h"
#include "../core/recycle.h"
#include "scan.h"
#include "../core/snapshot_state.h"
#include "userfault.h"
#include "wire.h"

/* By the system call, or by the device if there is one: a container's profile may deny one and allow the other. */
long snapshot_new_userfaultfd(void)
{
	long descriptor = RAW1(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);

	if (descriptor < 0 && reprise_options.userfaultfd >= 0) {
		long made = RAW3(SYS_ioctl, reprise_options.userfaultfd, USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK);
		descriptor = made < 0 ? descriptor : made;
	}
	return descriptor;
}

long snapshot_set_up_userfaultfd(int descriptor)
{
	struct uffdio_api api = {
	    .api = UFFD_API,
	    .features = UFFD_FEATURE_WP_ASYNC | UFFD_FEATURE_WP_UNPOPULATED | UFFD_FEATURE_PAGEFAULT_FLAG_WP,
	};

	return RAW3(SYS_ioctl, descriptor, UFFDIO_API, &api);
}

/* A userfaultfd that is set up refuses a second set-up with EINVAL. Any other descriptor gives another error. */
bool snapshot_is_userfaultfd(int descriptor)
{
	struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_WP_ASYNC};

	return RAW3(SYS_ioctl, descriptor, UFFDIO_API, &api) == -EINVAL;
}

struct faults snapshot_faults(void)
{
	struct rusage self = {0}, children = {0};

	/* RUSAGE_SELF counts all threads, ended ones included. */
	RAW2(SYS_getrusage, RUSAGE_SELF, &self);
	RAW2(SYS_getrusage, RUSAGE_CHILDREN, &children);
	return (struct faults){self.ru_minflt + self.ru_majflt, children.ru_minflt + children.ru_majflt};
}

static bool write_protect(uintptr_t start, uintptr_t end, uint64_t mode)
{
	struct uffdio_writeprotect range = {.range = {start, end - start}, .mode = mode};

	return RAW3(SYS_ioctl, snapshot->watch.uffd, UFFDIO_WRITEPROTECT, &range) >= 0;
}

bool snapshot_protect(uintptr_t start, uintptr_t end)
{
	return write_protect(start, end, UFFDIO_WRITEPROTECT_MODE_WP);
}

bool snapshot_register(uintptr_t start, uintptr_t end)
{
	struct uffdio_register range = {.range = {start, end - start}, .mode = UFFDIO_REGISTER_MODE_WP};

	return RAW3(SYS_ioctl, snapshot->watch.uffd, UFFDIO_REGISTER, &range) >= 0;
}

bool snapshot_unprotect(uintptr_t start, uintptr_t end)
{
	return write_protect(start, end, 0);
}

void snapshot_protect_or_recycle(uintptr_t start, uintptr_t end)
{
	if (start < end && !snapshot_protect(start, end)) {
		reprise_recycle(wire_Recycle_Protection, "pages cannot be protected any more");
	}
}

/* MADV_GUARD_REMOVE (Linux 6.13). It changes no page that is not a guard. */
void snapshot_remove_guards(void)
{
	for (size_t i = 0; i < snapshot->image.region_count; i++) {
		const struct region *region = &snapshot->image.regions[i];
		RAW3(SYS_madvise, region->start, region->end - region->start, 103);
	}
}
