/*
 * The snapshot: what the files of this directory share.
 *
 * A template runs an entry script up to reprise_snapshot(), which leaves PHP's stack for the service stack (take.c).
 * From there on a template only forks (forker.c). Each clone waits for a request on its service stack, resumes PHP
 * where the script called (serve.c), ends the request as PHP-FPM would (end.c), comes back to the service stack and
 * puts all memory and kernel state back (rewind.c, kernel.c), or recycles itself if it cannot prove that it did
 * (prove.c).
 *
 * template.c  boots the script; the loop of a template
 * refuse.c    what may not be open when a snapshot is taken
 * held.c       what PHP holds then
 * maps.c      /proc/self/maps: read, compared, put back
 * take.c      the image: all private writable memory, in a sealed memory file
 * clone.c     a worker: its own userfaultfd, its own identity, its loop
 * compact.c   PHP's heap, so that requests write to few pages
 * serve.c     a request into PHP's globals
 * random*.c   generators of random numbers, seeded for each request
 * learn.c     patterns that requests compile, into the next snapshot
 * end.c       php_request_shutdown without freeing what a rewind frees anyway
 * rewind.c    memory back to the image: hot pages, and what a scan finds
 * kernel.c    descriptors, directory, masks, timers, signals back
 * prove.c     checks after each rewind; audit
 * checks.h    checks of a build for undefined behaviour; planted.c: faults that show that they work
 * dirty*.c    calls of PHP and its libraries that change what page faults do not show
 *
 * Rule: everything that runs on the service stack uses raw.h and wire, writes to service memory only, and never lets
 * the engine see EG(bailout).
 */
#ifndef REPRISE_SNAPSHOT_H
#define REPRISE_SNAPSHOT_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <ucontext.h>

#include "../forker.h"
#include "../raw.h"
#include "../reprise.h"

#define PAGE 4096ul
#define SERVICE_STACK (128 * 1024)
/* Mappings and private writable ones at the snapshot; more are refused. */
#define MAX_MAPPINGS 8192
#define MAX_REGIONS 4096
/* Descriptors that may be open at the snapshot. */
#define MAX_OWNED 256
/* Pages that are copied back without being protected. */
#define MAX_HOT 16384
/* Clones that leave for a newer snapshot do so one after the other, up to so many. */
#define REPRISE_LATE 64
/* New mappings of one request that are undone without reading /proc/self/maps. */
#define MAX_FRESH 128

/* What dirty*.c and the loop found out about the request. */
enum dirty {
	DIRTY_MEMORY = 1 << 0,     /* content may have changed without a fault: scan */
	DIRTY_MAPPINGS = 1 << 1,   /* mappings of the snapshot may have changed: compare all, then scan */
	DIRTY_SIGNALS = 1 << 3,    /* handlers, masks, alternate stack */
	DIRTY_OWNED = 1 << 4,      /* a descriptor of the snapshot */
	DIRTY_ATTRIBUTES = 1 << 5, /* what cannot be put back */
	DIRTY_POSIX_TIMERS = 1 << 6,
	DIRTY_OPENED = 1 << 7,    /* memory that is not rewound was made writable */
	DIRTY_GUARDS = 1 << 8,    /* pages of the snapshot were made inaccessible by madvise */
	DIRTY_PASSED_BY = 1 << 9, /* libc may have been called without our seeing it */
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

/* A descriptor that was open at the snapshot. */
struct owned {
	int number;
	int flags;      /* of open(2) */
	int64_t offset; /* of a regular file that the boot has opened; otherwise -1 */
	bool is_kept_on_exec;
	uint64_t device, inode; /* what it is: the number may be another's by the time of the snapshot */
};

struct hot_page {
	unsigned char *page;
	const unsigned char *image;
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
	struct range own[4]; /* memory of ours that is no part of the snapshot; the slab comes last */
	struct range identity[2];
	uintptr_t brk;
	struct raw_sigaction actions[RAW_SIGNALS];
	stack_t alternate_stack;
	unsigned umask;
	uintptr_t robust_list;
	size_t robust_size;
	struct lessons *lessons;    /* shared with all clones; NULL: nothing is learned */
	uint32_t lesson;            /* how many snapshots there were before this one */
	bool is_per_host;           /* it serves requests of the host and scheme of its boot alone */
	bool is_passed_by;          /* the boot has opened libraries by name: libc is called without our seeing it */
	bool is_trial;              /* a clone that only shows whether others can start */
	bool is_learning;           /* PHP was resumed to learn, not for a request */
	int own_smaps, own_pagemap; /* of the template, for the next snapshot */
	bool asks;                  /* this clone makes room for it */

	/* Each clone's own. */
	ucontext_t service;
	uint32_t dirty;
	uint32_t timers;   /* interval timers that run: bit per number */
	char culprit[128]; /* what cannot be put back, in words */
	bool in_request;   /* PHP runs: dirty*.c take notes */
	int uffd, pagemap, statm, task_directory, descriptor_directory, working_directory;
	uint64_t sizes[3]; /* pages mapped, of code, of data */
	int owned_copies[MAX_OWNED];
	int64_t descriptors;
	struct faults faults;
	size_t hot_count;
	struct hot_page hot[MAX_HOT];
	uint8_t *hits; /* per page of the image: how often it was found written lately; HOT: it is hot */
	uint64_t rewinds;
	uint32_t late; /* requests since there is a newer snapshot */
	size_t fresh_count;
	struct range fresh[MAX_FRESH];
};

/* Service memory: private to each process, and no part of the snapshot. */
extern struct snapshot_state *reprise_snapshot_state;
extern struct forker *reprise_forker;
extern unsigned char *reprise_service_stack;
#define snapshot (*reprise_snapshot_state)

/* dirty*.c: do nothing; a linker takes files from a library only if somebody calls them. */
void reprise_interpose_memory(void);
void reprise_interpose_process(void);
void reprise_interpose_files(void);
void reprise_attributes_start(void); /* in a worker */
bool reprise_attributes_are_right(void);
bool reprise_may_set_flags(int number, long flags);
/* The same of an ioctl. */
bool reprise_may_control(int number, long request);
int reprise_note_opened(int number, int flags);

/* template.c */
long reprise_template_fork(struct forker *forker, enum wire_Isolation isolation, int control, int head);
void reprise_template_loop(void);
_Noreturn void reprise_boot_failed(const char *why, const char *detail);
/* The script ended before it was time; by itself, or by exit() or an error: then with PHP's last message. */
_Noreturn void reprise_boot_ended(const char *how, bool ran_to_end);

/* held.c */
void reprise_settle_what_php_holds(void);

/* refuse.c: descriptors and processes */
void reprise_note_descriptors(void);
void reprise_refuse_what_cannot_be_rewound(void);

/* maps.c */
typedef bool (*mapping_visitor)(const struct mapping *, const char *name, void *context);
long reprise_each_mapping_of(int descriptor, mapping_visitor visit, void *context);
long reprise_each_mapping(const char *file, mapping_visitor visit, void *context);
long reprise_restore_mappings(void); /* 0, a negative errno, or 1: cannot be made again */
bool reprise_is_own(uintptr_t start, uintptr_t end);
const struct region *reprise_region_of(uintptr_t address);

/* take.c: on the service stack. Writes why to `why` if it fails. */
bool reprise_take(const char **why);
enum wire_Isolation reprise_choose_isolation(const char **why);
void reprise_grow_stack(void);

/* clone.c */
long reprise_clone_fork(struct forker *forker, uint32_t slot);
bool reprise_clone_try(void); /* in the template; false: no clone can start, and the log says why */
int reprise_open_userfaultfd(void);
bool reprise_is_userfaultfd(int descriptor);
void reprise_blame(const char *what, uintptr_t address); /* fills culprit */
_Noreturn void reprise_recycle(enum wire_Recycle why, const char *detail);

/* limits.c */
void reprise_limits_start(void); /* in a new worker */
bool reprise_is_spent(void);     /* has it done or used what it may? */
void reprise_end_if_spent(void); /* if that said so: gives its place to a fresh one */

/* serve.c: on PHP's stack. */
void reprise_serve_prepare(void);
void reprise_boot_output(const char *bytes, size_t size);
void reprise_note_additions(void);
void reprise_fill_superglobals(bool all); /* all: whether or not the boot had them */

/* random.c */
void reprise_random_share(void);
void reprise_random_part(void);
void reprise_random_start(void);
void reprise_random_prepare(void);
void reprise_random_renew(void);

bool reprise_random_is_preloaded(void);
void *reprise_loaded_function(const char *library, const char *name);

/* random_libraries.c */
void reprise_random_libraries_start(void);
void reprise_random_libraries_prepare(void);
void reprise_random_libraries_renew(void);

/* random_libc.c */
void reprise_random_libc_seed(void);   /* at once, if nobody has since the last: */
void reprise_random_libc_forget(void); /* the next draw seeds */
void reprise_random_libc_renew(void);
void reprise_random_libc_is_passed_by(void); /* it is drawn from without our seeing it */

/* compact.c: on PHP's stack. */
bool reprise_collect_cycles(void); /* false: an exception is pending */
void reprise_compact(void);

/* end.c: on PHP's stack. */
void reprise_end(void);

/* learn.c */
void reprise_learn_prepare(void);
void reprise_learn_note(void);
bool reprise_learn_leaves(void);
void reprise_learn_patterns(void);
bool reprise_lane_is_proved(bool went_well); /* false: no request went well so far */
void reprise_learn(void);

/* rewind.c */
struct faults reprise_faults(void);
bool reprise_protect(uintptr_t start, uintptr_t end);
bool reprise_register(uintptr_t start, uintptr_t end);
void reprise_remove_guards(void);
void reprise_pin(uintptr_t start, uintptr_t end); /* hot for ever */
void reprise_copy_region(const struct region *region, uintptr_t from, uintptr_t to);
void reprise_rewind(void);

/* kernel.c */
void reprise_kernel_take(void);
void reprise_block_signals(void);
void reprise_kernel_start(void); /* in a clone */
void reprise_kernel_restore(void);
bool reprise_is_known_descriptor(int number);

/* prove.c */
void reprise_prove_start(void);
void reprise_prove_alone(void);
void reprise_prove_mappings(void);
void reprise_audit(bool was_fast);

#endif
