/*
 * What a rewind needs of the kernel, tried out. The supervisor has it tried at its start (`--needs`), says once what is
 * missing, and who forbids it (crates/reprise/src/isolation). A template tries it again, because the answer may change
 * while the server runs: a security module gets another policy.
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
#include "scan.h"
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
};

static void try_userfaultfd(struct needs *needs)
{
	long descriptor = snapshot_new_userfaultfd();

	needs->userfaultfd = error_of(descriptor);
	if (descriptor < 0) {
		/* The kernel looks at vm.unprivileged_userfaultfd first, at the flags then, and asks security modules last. A
		 * seccomp filter comes before all of them. */
		needs->beyond = error_of(RAW1(SYS_userfaultfd, UFFD_USER_MODE_ONLY | O_RDWR));
		return;
	}
	needs->api = error_of(snapshot_set_up_userfaultfd((int)descriptor));
	RAW1(SYS_close, descriptor);
}

static void try_scan(struct needs *needs)
{
	long pagemap = RAW4(SYS_openat, AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC, 0);

	needs->pagemap = error_of(pagemap);
	if (pagemap >= 0) {
		needs->scan = error_of(scan_something((int)pagemap));
		RAW1(SYS_close, pagemap);
	}
}
#endif

bool snapshot_try_needs(char *text, size_t size)
{
#ifdef __SANITIZE_ADDRESS__
	/* Its shadow memory cannot be rewound. */
	snprintf(text, size, "sanitizer");
	return false;
#else
	struct needs needs = {0};
	int *tid = NULL;

	needs.thread = error_of(RAW2(SYS_prctl, PR_GET_TID_ADDRESS, &tid));
	try_userfaultfd(&needs);
	try_scan(&needs);
	snprintf(text, size, "thread=%d userfaultfd=%d beyond=%d api=%d pagemap=%d scan=%d", needs.thread,
	         needs.userfaultfd, needs.beyond, needs.api, needs.pagemap, needs.scan);
	return tid && !needs.thread && !needs.userfaultfd && !needs.api && !needs.pagemap && !needs.scan;
#endif
}
