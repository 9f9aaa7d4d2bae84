/*
 * Calls that change a process without a page fault. The executable's own versions come before libc's for libphp and all
 * extensions (dlopen takes RTLD_DEEPBIND away, with which an extension would look into its own libraries first); each
 * does what libc's does and notes what the rewind has to look at.
 *
 * dirty_memory.c   mappings, protections, libraries
 * dirty_process.c  children, threads, signals, timers, users and limits
 * dirty_files.c    descriptors, raw system calls
 * dirty_attributes.c  /proc/self, names, limits, flags of standard descriptors
 *
 * What they do not see: system calls that libraries make by instructions of their own, and libc's calls to itself.
 * Those are caught by other means, or harmless; ARCHITECTURE.md lists them.
 *
 * Notes are taken only while a clone runs a request, in service memory. Builds with AddressSanitizer, which has
 * versions of its own of most of these and cannot be rewound anyway, have none but dlopen.
 */
#ifndef REPRISE_DIRTY_H
#define REPRISE_DIRTY_H

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "../worker.h"
#include "clone.h"
#include "snapshot.h"

#define PUBLIC __attribute__((visibility("default")))

static inline bool is_watching(void)
{
	return snapshot && snapshot->in_request;
}

static inline void note(uint32_t what)
{
	if (is_watching()) {
		snapshot->dirty |= what;
	}
}

/* Workers of classic mode and of scripts end after a request that has changed what cannot be put back. */
static inline bool takes_notes(void)
{
	return is_watching() || (reprise_worker && reprise_worker->is_worker && !snapshot->is_taken);
}

static inline void note_attribute(const char *call)
{
	if (takes_notes()) {
		snapshot->dirty |= DIRTY_ATTRIBUTES;
		reprise_blame(call, 0);
	}
}

static inline long result(long value)
{
	if (value < 0) {
		errno = (int)-value;
		return -1;
	}
	return value;
}

/* libc's own function of that name. */
static inline void *next(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);

	if (!found) {
		abort();
	}
	return found;
}

#define NEXT(name)                                                                                                     \
	static __typeof__(name) *known;                                                                                    \
	if (!known) {                                                                                                      \
		*(void **)&known = next(#name);                                                                                \
	}

#define FORWARD_INT(flags, name, parameters, arguments)                                                                \
	PUBLIC int name parameters                                                                                         \
	{                                                                                                                  \
		NEXT(name)                                                                                                     \
		note(flags);                                                                                                   \
		return known arguments;                                                                                        \
	}

#define ATTRIBUTE(name, parameters, arguments)                                                                         \
	PUBLIC int name parameters                                                                                         \
	{                                                                                                                  \
		NEXT(name)                                                                                                     \
		note_attribute("a request called " #name);                                                                     \
		return known arguments;                                                                                        \
	}

#endif
