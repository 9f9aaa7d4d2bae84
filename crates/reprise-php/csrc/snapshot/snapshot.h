/*
 * The snapshot: the state that the files of this directory share; each has a header of its own.
 *
 * A template runs an entry script up to reprise_snapshot(), which leaves PHP's stack for the service stack (take.c).
 * From there on a template only forks (forker.c). Each clone waits for a request on its service stack, resumes PHP
 * where the script called (serve.c), ends the request as PHP-FPM would (end.c), comes back to the service stack and
 * puts all memory and kernel state back (rewind.c, kernel.c), or recycles itself if it cannot prove that it did
 * (prove.c).
 *
 * template.c  boots the script; the loop of a template
 * refuse.c    what may not be open when a snapshot is taken
 * needs.c     what a rewind needs of the kernel
 * held.c      what PHP holds then
 * maps.c      /proc/self/maps: read, compared, put back
 * take.c      the image: all private writable memory, in a sealed memory file
 * clone.c     a worker: its own userfaultfd, its own identity, its loop
 * compact.c   PHP's heap, so that requests write to few pages
 * serve.c     a request into PHP's globals
 * random*.c   generators of random numbers, seeded for each request
 * warm.c      what libraries make at their first use
 * learn.c     patterns that requests compile, into the next snapshot
 * end.c       php_request_shutdown without freeing what a rewind frees anyway
 * rewind.c    memory back to the image: hot pages, and what a scan finds
 * kernel.c    descriptors, directory, masks, timers, signals back
 * pages.h     single pages: their image, copying them, counting how often they are written
 * prove.c     checks after each rewind; audit
 * checks.h    checks of a build for undefined behaviour; planted.c: faults that show that they work
 * dirty*.c    calls of PHP and its libraries that change what page faults do not show
 *
 * Code on the service stack uses raw.h and wire, writes to service memory only, and calls
 * no function of PHP.
 */
#ifndef REPRISE_SNAPSHOT_H
#define REPRISE_SNAPSHOT_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <ucontext.h>

#include "../connections/connections.h"
#include "../raw.h"
#include "wire.h"

struct lessons;

#define SERVICE_STACK (128 * 1024)
/* Mappings and private writable ones at the snapshot; more are refused. */
#define MAX_MAPPINGS 8192
#define MAX_REGIONS 4096
/* Descriptors that may be open at the snapshot. */
#define MAX_OWNED 256
/* Pages that are copied back without being protected. */
#define MAX_HOT 16384
/* Clones end one after the other when there is a newer snapshot, up to so many. */
#define REPRISE_LATE 64
/* Bits of the interval timers: ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF. */
#define REPRISE_ALL_TIMERS 7u
/* New mappings of one request that are undone without reading /proc/self/maps. */
#define MAX_FRESH 128

/* What dirty*.c and the loop of a clone have found out about a request. */
enum dirty {
	DIRTY_MEMORY = 1 << 0,     /* content may have changed without a fault: scan */
	DIRTY_MAPPINGS = 1 << 1,   /* mappings of the snapshot may have changed: compare all, then scan */
	DIRTY_SIGNALS = 1 << 3,    /* handlers, masks, alternate stack */
	DIRTY_OWNED = 1 << 4,      /* descriptors of the snapshot */
	DIRTY_ATTRIBUTES = 1 << 5, /* what cannot be put back */
	DIRTY_POSIX_TIMERS = 1 << 6,
	DIRTY_OPENED = 1 << 7,    /* memory that is not rewound was made writable */
	DIRTY_GUARDS = 1 << 8,    /* pages of the snapshot were made inaccessible by madvise */
	DIRTY_PASSED_BY = 1 << 9, /* dirty*.c may have missed calls of libc */
	DIRTY_FORKED = 1 << 10,   /* a child may have what is open */
};

/* A line of /proc/self/maps. */
struct mapping {
	uintptr_t start, end;
	uint64_t offset, inode;
	uint32_t device;
	uint8_t protection; /* PROT_* */
	bool is_private;
	bool is_volatile; /* dp or wf: the kernel empties it by itself (smaps only) */
};

/* Private writable memory, and where the image has it. */
struct region {
	uintptr_t start, end;
	size_t image;
	bool is_anonymous;
	bool is_stack;
};

struct range {
	uintptr_t start, end;
};

/* Memory of reprise-php that is no part of the snapshot. */
enum own_range {
	OWN_SERVICE, /* the service stack, and this state */
	OWN_HITS,
	OWN_IMAGE,
	OWN_SLAB,
	OWN_RANGES
};

/* Bytes of the snapshot that each clone has for itself. */
enum identity_range { IDENTITY_THREAD, IDENTITY_RSEQ, IDENTITIES };

/* Sizes of the process, in pages. */
struct sizes {
	uint64_t mapped, code, data;
};

/* A descriptor that was open at the snapshot. */
struct owned {
	int number;
	int flags;      /* of open(2) */
	int64_t offset; /* of a regular file that the boot has opened; otherwise -1 */
	bool is_kept_on_exec;
	uint64_t device, inode; /* of its file: the boot may give the number to another file */
};

struct hot_page {
	unsigned char *page;
	const unsigned char *image; /* NULL: it is filled with zeroes */
};

/* Page faults so far, of this process and of its reaped children. */
struct faults {
	long self, children;
};

struct snapshot_state {
	/* Written by the template; the same in every clone. */
	enum wire_Isolation isolation;
	bool is_taken;
	ucontext_t php; /* where reprise_snapshot() returns */
	const unsigned char *image;
	size_t image_size;
	size_t mapping_count, region_count, owned_count;
	struct mapping mappings[MAX_MAPPINGS];
	struct region regions[MAX_REGIONS];
	struct owned owned[MAX_OWNED];
	struct range own[OWN_RANGES];
	struct range identity[IDENTITIES];
	uintptr_t brk;
	unsigned umask;
	uintptr_t robust_list;
	size_t robust_size;
	struct lessons *lessons;    /* shared with all clones; NULL: nothing is learned */
	uint32_t lesson;            /* how many snapshots there were before this one */
	bool is_per_host;           /* it serves requests of the host and scheme of its boot alone */
	bool is_passed_by;          /* the boot has opened libraries by name: dirty*.c may miss calls of libc */
	bool is_trial;              /* a clone that only shows whether others can start */
	bool is_learning;           /* PHP was resumed to learn, not for a request */
	int own_smaps, own_pagemap; /* of the template, for the next snapshot */
	bool compares_lines;        /* the processor can put hot pages back by lines (pages.h) */
	uint32_t held_locales;      /* of learn.c: a bit for each */
	bool has_loose_locale;      /* of the boot, whose files setlocale() may unmap */
	bool asks;                  /* this clone ends, so that the template takes another snapshot */

	/* How each request finds its process (signals.c); of workers of other modes, too. */
	struct raw_sigaction actions[RAW_SIGNALS];
	stack_t alternate_stack;
	uint64_t mask;
	uint32_t own_timers; /* that ran: bit per number */

	/* Each clone's own. */
	ucontext_t service;
	uint32_t dirty;
	uint32_t timers;   /* interval timers that requests have started: bit per number */
	char culprit[128]; /* what cannot be put back, in words */
	char locale[64];   /* that the request has set last */
	bool in_request;   /* PHP runs: dirty*.c take notes */
	int uffd, pagemap, statm, task_directory, descriptor_directory, working_directory;
	struct sizes sizes;
	int owned_copies[MAX_OWNED];
	int64_t descriptors;
	struct faults faults;
	size_t hot_count;
	struct hot_page hot[MAX_HOT];
	uint8_t
	    *hits; /* for each page of the image: its state (enum page_state), or how often it was found written lately */
	size_t open_count;      /* pages that were free at the snapshot and that requests have written to */
	size_t found, put_back; /* by this rewind: pages that were protected and written; pages copied or zeroed */
	uint64_t rewinds;
	uint32_t late; /* requests since there is a newer snapshot */
	size_t fresh_count;
	struct range fresh[MAX_FRESH];
	struct connections connections; /* that stay open */
};

/* Service memory: private to each process, and no part of the snapshot. */
extern struct snapshot_state *snapshot;
extern unsigned char *reprise_service_stack;

#endif
