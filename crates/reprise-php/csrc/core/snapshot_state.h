/* The state of a snapshot and its clones. */
#ifndef REPRISE_SNAPSHOT_STATE_H
#define REPRISE_SNAPSHOT_STATE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <ucontext.h>

#include "connections_state.h"
#include "raw.h"
#include "ipc.h"
#include "state.h"

struct lessons;
struct watch_way;

#define SERVICE_STACK (128 * 1024)
/* Mappings and private writable ones at the snapshot; more are refused. */
#define MAX_MAPPINGS 8192
#define MAX_REGIONS 4096
/* Descriptors that may be open at the snapshot. */
#define MAX_OWNED 256
/* Pages that are copied back without being protected. */
#define MAX_HOT 16384
/* The longest name of a locale that is learned, with its end. */
#define REPRISE_LOCALE 64
/* Clones end one after the other when there is a newer snapshot, up to so many. */
#define REPRISE_LATE 64
/* Bits of the interval timers: ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF. */
#define REPRISE_ALL_TIMERS 7u
/* New mappings of one request that are undone without reading /proc/self/maps. */
#define MAX_FRESH 128
/* Ranges that one rewind protects by themselves, by soft-dirty bits. If there are more, all are. */
#define MAX_CHANGED 1024

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
	DIRTY_DROPPED = 1 << 11,  /* madvise on memory of the snapshot */
};

/* A line of /proc/self/maps. */
struct mapping {
	uintptr_t start, end;
	uint64_t offset, inode;
	uint32_t device;
	uint8_t protection; /* PROT_* */
	bool is_private;
	bool is_volatile; /* dp or wf: the kernel empties it by itself (smaps only) */
	bool is_huge;     /* ht: in pages of hugetlb (smaps only) */
};

/* Private writable memory, and where the image has it. */
struct region {
	uintptr_t start, end;
	size_t image;
	bool is_anonymous;
	bool is_stack;
	uint8_t protection; /* PROT_* */
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

/* Each part is written by its owner alone, which the comment names. */

/* take.c, in the template: the image of all private writable memory. The same in every clone, but for own. */
struct snapshot_image {
	bool is_taken;
	bool is_passed_by; /* the boot has opened libraries by name: dirty*.c may miss calls of libc */
	const unsigned char *bytes;
	size_t size;
	size_t mapping_count, region_count;
	struct mapping mappings[MAX_MAPPINGS];
	struct region regions[MAX_REGIONS];
	struct range own[OWN_RANGES]; /* also main.c and clone.c, each its range */
	struct range identity[IDENTITIES];
	uintptr_t brk;
	int own_smaps, own_pagemap; /* of the template, for the next snapshot */
};

/* kernel.c and, in the template, refuse.c: what the kernel keeps for a process. */
struct snapshot_kernel {
	size_t owned_count;
	struct owned owned[MAX_OWNED];
	int owned_copies[MAX_OWNED]; /* each clone's own, as all that follows */
	unsigned umask;
	uintptr_t robust_list;
	size_t robust_size;
	int64_t descriptors; /* how many are open; open.c adds those of connections that are kept */
	int pagemap, statm, task_directory, descriptor_directory, working_directory;
};

/* signals.c: how each request finds its process; of workers of other modes, too. */
struct snapshot_signals {
	struct raw_sigaction actions[RAW_SIGNALS];
	stack_t alternate_stack;
	uint64_t mask;
	uint32_t own_timers; /* that ran: bit per number */
};

/* learn.c and warm.c: what requests had to make, for the next snapshot. */
struct snapshot_learned {
	struct lessons *lessons; /* shared with all clones; NULL: nothing is learned */
	uint32_t lesson;         /* how many snapshots there were before this one */
	bool is_learning;        /* PHP was resumed to learn, not for a request */
	uint32_t held_locales;   /* a bit for each */
	bool has_loose_locale;   /* of the boot, whose files setlocale() may unmap */
	bool asks;               /* this clone ends, so that the template takes another snapshot */
	uint32_t late;           /* requests since there is a newer snapshot */
};

/* The functions of libc in ../interpose, while PHP runs; what has acted upon a note clears it. */
struct snapshot_notes {
	bool in_request;             /* PHP runs: notes are taken. Written by who runs it */
	uint32_t dirty;              /* enum dirty */
	uint32_t timers;             /* interval timers that requests have started: bit per number */
	char culprit[128];           /* what cannot be put back, in words */
	char locale[REPRISE_LOCALE]; /* that the request has set last */
	size_t fresh_count;
	struct range fresh[MAX_FRESH];
};

/* hot.c: pages that are not protected. */
struct snapshot_hot {
	bool compares_lines; /* the processor can put hot pages back by lines (pages.h) */
	size_t count;
	struct hot_page pages[MAX_HOT];
	uint8_t
	    *hits; /* for each page of the image: its state (enum page_state), or how often it was found written lately */
	size_t open_count;      /* pages that were free at the snapshot and that requests have written to */
	size_t found, put_back; /* by this rewind: pages that were protected and written; pages copied or zeroed */
};

/* clone.c, rewind.c, prove.c and the way by which written pages are found (ways.h). */
struct snapshot_watch {
	const struct watch_way *way;  /* chosen by template.c */
	int descriptor;               /* of the way: a userfaultfd, or clear_refs */
	bool must_clear, all_changed; /* softdirty.c */
	size_t changed_count;         /* softdirty.c */
	struct range changed[MAX_CHANGED];
	volatile unsigned char *canary;   /* take.c: a page that softdirty.c alone writes to */
	struct owned clear_refs, pagemap; /* softdirty.c */
	struct faults faults;
	uint64_t counted; /* faults of the request that has ended */
	struct sizes sizes;
	uint64_t rewinds;
};

struct snapshot_state {
	enum ipc_Isolation isolation; /* chosen by template.c */
	bool is_per_host;             /* it serves requests of the host and scheme of its boot alone; serve.c */
	bool is_trial;                /* a clone that only shows whether others can start; clone.c */
	ucontext_t php;               /* where reprise_snapshot() returns */
	ucontext_t service;           /* where a clone's loop goes on */
	struct snapshot_image image;
	struct snapshot_kernel kernel;
	struct snapshot_signals signals;
	struct snapshot_learned learned;
	struct snapshot_notes notes;
	struct snapshot_hot hot;
	struct snapshot_watch watch;
	struct connections connections; /* that stay open */
};

/* Whether clones are rewound; otherwise each ends after its request. */
static inline bool snapshot_rewinds(void)
{
	return snapshot->isolation == ipc_Isolation_Userfaultfd || snapshot->isolation == ipc_Isolation_SoftDirty;
}

#endif
