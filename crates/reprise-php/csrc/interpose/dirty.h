/*
 * Calls that change a process without a page fault. The executable has versions of its own. The linker prefers them to
 * libc's for libphp and all extensions. (An extension that is loaded with RTLD_DEEPBIND would find libc's, so dlopen
 * removes that flag.) Each does what libc's version does, and notes what the rewind has to look at.
 *
 * dirty_memory.c   mappings, protections, libraries
 * dirty_process.c  children, threads, signals, timers, users and limits
 * dirty_files.c    descriptors, the working directory, raw system calls
 * dirty_attributes.c  /proc/self, names, limits, flags of standard descriptors
 * traffic.c        connections that are kept
 * random_libc.c    libc's generators of random numbers
 * uploads.c        the names of temporary files of uploads
 * file_cache.c     whether opcache may use a directory that it can only read
 *
 * They do not see system calls that libraries make without libc, and libc's calls to itself. Those are found by other
 * means, or are harmless; ARCHITECTURE.md lists them.
 *
 * Notes are taken while a clone runs a request, in service memory. AddressSanitizer has its own versions of most of
 * these calls, and a build with it cannot be rewound. Such a build has only dlopen.
 */
#ifndef REPRISE_DIRTY_H
#define REPRISE_DIRTY_H

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "../core/worker_state.h"
#include "../core/snapshot_state.h"
#include "../core/recycle.h"

#define PUBLIC __attribute__((visibility("default")))

static inline bool is_watching(void)
{
	return snapshot && snapshot->notes.in_request;
}

/* Workers of classic mode and of worker mode take notes, too. They put signals and timers back (signals.c), and end
 * after a request that has changed what cannot be put back. */
static inline bool takes_notes(void)
{
	return is_watching() || (reprise_worker && reprise_worker->is_worker && !snapshot->image.is_taken);
}

static inline void note(uint32_t what)
{
	if (takes_notes()) {
		snapshot->notes.dirty |= what;
	}
}

static inline void note_attribute(const char *call)
{
	if (takes_notes()) {
		snapshot->notes.dirty |= DIRTY_ATTRIBUTES;
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

/* libc's function of that name. */
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
