/* Connections that stay open while their process is rewound: what a clone knows of them. */
#ifndef REPRISE_CONNECTIONS_STATE_H
#define REPRISE_CONNECTIONS_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#include "db_session.h"

/* Connections of a clone, and hooks of an application. */
#define MOST_KEPT 8
#define MOST_HOOKS 32
/* Bytes that a hook may send on a connection. */
#define MOST_SAID 8192
/* Bytes of the replies to a reset, notices included. */
#define MOST_REPLIES 16384
/* Pages that hooks may write: 16 MiB. */
#define MOST_ADOPTED 4096

struct openings;

struct kept_connection {
	int number;
	int flags; /* of fcntl(F_GETFL) */
	uint64_t device, inode;
	bool is_passed_by; /* something was done to it by a call that is not followed */
	uint8_t last[6];   /* the last bytes that were received */
	size_t said;
	unsigned char sent[MOST_SAID]; /* by its hook */
	struct db_session_state state;
};

struct connections {
	/* The same in all clones. */
	uint32_t hooks;
	struct openings *openings; /* shared with all clones */

	/* Each clone's own. */
	uint32_t opening;  /* the hook that runs, from 1 */
	bool has_failed;   /* that hook */
	bool is_holding;   /* objects of the snapshot are freed */
	bool is_to_leave;  /* a fresh clone is to open them again */
	bool has_too_many; /* the hook that runs has more connections open than there may be */
	bool is_touched;   /* the hook that runs has used a connection of another one */
	uint64_t served;   /* requests with them */
	bool is_waiting;   /* a fresh clone is to open them as soon as hooks may be tried again */
	bool is_beyond;    /* a fresh clone is to open them as soon as fewer workers keep connections than may */
	size_t count;      /* that are kept */
	size_t opened;     /* with those that the hook that runs has opened */
	struct kept_connection of[MOST_KEPT];
	ucontext_t php;                     /* where PHP would go on without what hooks have done */
	ucontext_t before;                  /* the same without the hook that runs */
	uint8_t text[db_session_MOST_TEXT]; /* of a reset */
	uint8_t replies[MOST_REPLIES];
	size_t adopted_count;
	uint32_t adopted[MOST_ADOPTED]; /* pages of the image that are this clone's own */
};

#endif
