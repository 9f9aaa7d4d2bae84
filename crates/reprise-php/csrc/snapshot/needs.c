/*
 * What a rewind needs of the kernel, tried out. The supervisor has it tried at its start (`--needs`), says once what is
 * missing, and who forbids it (crates/reprise/src/isolation). A template tries it again, because the answer may change
 * while the server runs: a security module gets another policy.
 *
 * A seccomp filter may end the process that calls userfaultfd. So the rest is tried and said first.
 *
 * This runs with libc.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <sys/prctl.h>

#include "../core/raw.h"
#include "needs.h"
#include "softdirty.h"
#include "userfault.h"

#ifndef __SANITIZE_ADDRESS__
static int error_of(long result)
{
	return result < 0 ? (int)-result : 0;
}

struct needs {
	int thread;      /* where the kernel keeps the thread id (CONFIG_CHECKPOINT_RESTORE) */
	int userfaultfd; /* the system call, or the device */
	int beyond;      /* the system call with a flag that does not exist: EINVAL if the kernel sees it */
	int api;         /* asynchronous write protection */
	int pagemap;     /* /proc/self/pagemap */
	int scan;        /* PAGEMAP_SCAN */
	int clear;       /* /proc/self/clear_refs */
	int soft;        /* enum softdirty_step: 0, or where the bits do not do what they have to */
};

static void try_userfaultfd(struct needs *needs)
{
	long descriptor = snapshot_userfault_open();

	needs->userfaultfd = error_of(descriptor);
	if (descriptor < 0) {
		/* The kernel looks at vm.unprivileged_userfaultfd first, at the flags then, and asks security modules last. A
		 * seccomp filter comes before all of them. */
		needs->beyond = error_of(RAW1(SYS_userfaultfd, UFFD_USER_MODE_ONLY | O_RDWR));
		return;
	}
	needs->api = error_of(snapshot_userfault_set_up((int)descriptor));
	RAW1(SYS_close, descriptor);
}

static void try_files(struct needs *needs)
{
	long pagemap = RAW4(SYS_openat, AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC, 0);
	long clear_refs = snapshot_soft_dirty_open();

	needs->pagemap = error_of(pagemap);
	needs->clear = error_of(clear_refs);
	needs->soft = pagemap >= 0 && clear_refs >= 0 ? snapshot_soft_dirty_try((int)pagemap, (int)clear_refs) : 0;
	if (pagemap >= 0) {
		needs->scan = error_of(snapshot_userfault_try_search((int)pagemap));
		RAW1(SYS_close, pagemap);
	}
	if (clear_refs >= 0) {
		RAW1(SYS_close, clear_refs);
	}
}
#endif

struct snapshot_ways snapshot_try_needs(bool may_try_userfaultfd, char *text, size_t size)
{
#ifdef __SANITIZE_ADDRESS__
	(void)may_try_userfaultfd;
	/* Its shadow memory cannot be rewound. */
	snprintf(text, size, "sanitizer");
	return (struct snapshot_ways){0};
#else
	struct needs needs = {0};
	int *tid = NULL;

	needs.thread = error_of(RAW2(SYS_prctl, PR_GET_TID_ADDRESS, &tid));
	try_files(&needs);
	if (may_try_userfaultfd) {
		try_userfaultfd(&needs);
	} else {
		needs.userfaultfd = -1;
	}
	snprintf(text, size, "thread=%d userfaultfd=%d beyond=%d api=%d pagemap=%d scan=%d clear=%d soft=%d", needs.thread,
	         needs.userfaultfd, needs.beyond, needs.api, needs.pagemap, needs.scan, needs.clear, needs.soft);
	bool both = tid && !needs.thread && !needs.pagemap;
	return (struct snapshot_ways){
	    .userfaultfd = both && !needs.userfaultfd && !needs.api && !needs.scan,
	    .soft_dirty = both && !needs.clear && !needs.soft,
	};
#endif
}

enum ipc_Isolation snapshot_best_way(enum ipc_Isolation wanted, struct snapshot_ways ways)
{
	bool any = wanted == ipc_Isolation_Auto || wanted == ipc_Isolation_Rewind;

	if (ways.userfaultfd && (any || wanted == ipc_Isolation_Userfaultfd)) {
		return ipc_Isolation_Userfaultfd;
	}
	return ways.soft_dirty && (any || wanted == ipc_Isolation_SoftDirty) ? ipc_Isolation_SoftDirty : ipc_Isolation_Fork;
}
