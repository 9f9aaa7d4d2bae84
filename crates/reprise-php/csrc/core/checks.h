/*
 * Checks that the compiler cannot make by itself, because the arrays are reached through pointers. Only a build with
 * REPRISE_SANITIZE=undefined-trap has them; there a failed check traps, as undefined behaviour does.
 *
 * The same build can plant one fault, named by the environment variable REPRISE_PLANT, so that a test can show that the
 * checks work (planted.c). A release build contains neither.
 */
#ifndef REPRISE_CHECKS_H
#define REPRISE_CHECKS_H

#include <stdbool.h>

#ifdef REPRISE_CHECKED

#define CHECK(condition)                                                                                               \
	do {                                                                                                               \
		if (!(condition)) {                                                                                            \
			__builtin_trap();                                                                                          \
		}                                                                                                              \
	} while (0)

enum planted_fault {
	PLANTED_NOTHING,
	PLANTED_INDEX_PAST_HOT,   /* an array with known bounds: the compiler's check */
	PLANTED_OVERFLOW,         /* a signed number: the compiler's check */
	PLANTED_INDEX_PAST_HITS,  /* behind a pointer: CHECK */
	PLANTED_COPY_PAST_REGION, /* behind a pointer: CHECK */
	PLANTED_STRAY_PAGE,       /* the same past all checks: the audit */
	PLANTED_KEEP_ANY,         /* connections are kept whatever is said on them */
	PLANTED_STRAY_GUARD,      /* the same at the edge of service memory: its guard */
};

extern enum planted_fault snapshot_planted_fault;

#define IS_PLANTED(fault) (snapshot_planted_fault == (fault))

/* planted.c */
void snapshot_plant_fault(void);     /* once, in the prototype: takes the fault from the environment */
void snapshot_plant_in_rewind(void); /* before the audit */

#else

#define CHECK(condition) ((void)0)
#define IS_PLANTED(fault) false

static inline void snapshot_plant_fault(void)
{
}

static inline void snapshot_plant_in_rewind(void)
{
}

#endif

#endif
