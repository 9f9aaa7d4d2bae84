/* Where the workers that have requests are in their PHP code, over and over: `reprise profile`. */
#ifndef REPRISE_PROFILE_H
#define REPRISE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "wire.h"

/* Bytes of a packet: frames that do not fit are left out. */
#define PROFILE_PACKET 16384

struct forker;

/* Part of a forker. */
struct profile {
	int socket; /* 0: there is none under way */
	uint32_t lane;
	uint64_t interval; /* nanoseconds */
	uint64_t until;
	uint64_t last; /* when the last look was */
	uint64_t next;
	uint64_t looks; /* so many times */
	uint64_t spent; /* nanoseconds that they took */
	uint64_t lost;  /* packets that the reader was too slow for */
	/* Of the last looks at workers that had requests: how many, and what they took. */
	uint64_t recent_looks;
	uint64_t recent_spent;
	size_t size;
	char bytes[PROFILE_PACKET];
};

/* Takes the descriptor. One that is under way ends. */
void reprise_profile_begin(struct forker *forker, const struct wire_ToForker *what, int socket);

/* How long to wait for the next look. False: none is wanted. */
bool reprise_profile_wait(const struct forker *forker, struct timespec *wait);

/* Looks at the workers, if it is time. */
void reprise_profile_turn(struct forker *forker);

/* In a child of the forker, or at its end. */
void reprise_profile_leave(struct forker *forker);

#endif
