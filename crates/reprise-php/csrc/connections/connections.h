/*
 * Connections that stay open while their process is rewound.
 *
 * hooks.c    what the boot wants to be called in each clone, and calling it (on PHP's stack)
 * traffic.c  calls by which PHP and its libraries send and close: what hooks have said, what requests leave incomplete
 * open.c     a clone's connections are opened, judged, and become a part of its image
 * adopt.c    pages that hooks have written, in the image of one clone
 * reset.c    before a request, and between two
 *
 * What is said to servers is the crate `connection`'s. Everything but hooks.c and traffic.c runs on the service stack.
 *
 * Invariants:
 * - A connection is kept only if each byte that was sent on it was read as a message of a plain protocol.
 * - No request begins before the reset after the request before it has been confirmed, by a reply that has a random
 *   number in it.
 * - Nothing that frees an object of the snapshot reaches a server: see reprise_connections_hold().
 */
#ifndef REPRISE_CONNECTIONS_H
#define REPRISE_CONNECTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#include "connection.h"

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
	struct connection_state state;
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
	uint8_t text[connection_MOST_TEXT]; /* of a reset */
	uint8_t replies[MOST_REPLIES];
	size_t adopted_count;
	uint32_t adopted[MOST_ADOPTED]; /* pages of the image that are this clone's own */
};

/* open.c */
void reprise_forget_closed(void);    /* connections of the hook that runs */
void reprise_connections_open(void); /* in a clone, before its first request */
void reprise_connections_drop(void); /* as if no hook had run */

/* adopt.c */
const char *reprise_adopt_pages(void); /* NULL, or why not */
void reprise_disown_pages(void);

/* reset.c */
bool reprise_connections_are_alive(void); /* before a request */
void reprise_connections_begin_reset(void);
void reprise_connections_end_reset(void); /* does not return if there is any doubt */
bool reprise_connection_is_open(const struct kept_connection *connection);
bool reprise_connection_is_idle(const struct kept_connection *connection);
void reprise_connections_say_goodbye(void); /* this clone ends */
bool reprise_connection_reset(struct kept_connection *connection);
/* LOST: this connection is, others may do. NOT_NOW: none does for a while. */
enum confirmation { CONFIRMED, LOST, NOT_NOW, NEVER };
enum confirmation reprise_connection_confirm(struct kept_connection *connection, const char **why);
void reprise_connections_leave_if_wanted(void);

/* traffic.c */
void reprise_interpose_traffic(void);
void reprise_connections_hold(bool holds); /* what is sent and closed from here on stays here */
void reprise_note_raw_call(long number, long descriptor);
bool reprise_is_kept(int number);

/* hooks.c */
void reprise_hooks_prepare(void); /* in the template, before the snapshot */
void reprise_run_hook(void);      /* on PHP's stack */
bool reprise_hooks_may_run(void); /* in a fresh clone */
void reprise_hook_begins(void);
void reprise_hook_ended(void);
void reprise_hooks_failed(void); /* a pause begins */
void reprise_hooks_went_well(void);
bool reprise_hooks_want_try(void);        /* this clone is to end, so that a fresh one runs them */
bool reprise_hooks_want_one_more(void);   /* the same: one more may keep connections */
void reprise_hooks_offer(uint32_t place); /* in the template: a place that is free */
void reprise_note_life(bool is_short);
bool reprise_is_refused(uint32_t hook);
bool reprise_refuse_hook(uint32_t hook); /* for good; true: it was before */

#endif
