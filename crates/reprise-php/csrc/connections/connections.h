/*
 * Connections that stay open while their process is rewound.
 *
 * hooks.c    what the boot wants to be called in each clone, and calling it (on PHP's stack)
 * reset.c    before a request, and between two
 * ../interpose/traffic.c  calls by which PHP and its libraries send and close: what hooks have said, what requests
 * leave incomplete
 * ../snapshot/open.c      a clone's connections are opened, judged, and become a part of its image
 * ../snapshot/adopt.c     pages that hooks have written, in the image of one clone
 *
 * What is said to servers is the crate `connection`'s. Everything but hooks.c and traffic.c runs on the service stack.
 *
 * Invariants:
 * - A connection is kept only if each byte that was sent on it was read as a message of a plain protocol.
 * - No request begins before the reset after the request before it has been confirmed, by a reply that has a random
 *   number in it.
 * - Nothing that frees an object of the snapshot reaches a server: see interpose_connections_hold().
 */
#ifndef REPRISE_CONNECTIONS_H
#define REPRISE_CONNECTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#include "db_session.h"
#include "../core/connections_state.h"
#include "../interpose/traffic.h"

/* reset.c */
bool connections_are_alive(void); /* before a request */
void connections_begin_reset(void);
void connections_end_reset(void); /* does not return if there is any doubt */
bool connections_is_idle(const struct kept_connection *connection);
void connections_say_goodbye(void); /* this clone ends */
bool connections_reset_one(struct kept_connection *connection);
/* LOST: this connection is, others may do. NOT_NOW: none does for a while. */
enum confirmation { CONFIRMED, LOST, NOT_NOW, NEVER };
enum confirmation connections_confirm(struct kept_connection *connection, const char **why);
void connections_leave_if_wanted(void);

/* hooks.c */
void connections_hooks_prepare(void); /* in the template, before the snapshot */
void connections_run_hook(void);      /* on PHP's stack */
bool connections_hooks_may_run(void); /* in a fresh clone */
void connections_hook_begins(void);
void connections_hook_ended(void);
void connections_hooks_failed(void); /* a pause begins */
void connections_hooks_went_well(void);
bool connections_hooks_want_try(void);        /* this clone is to end, so that a fresh one runs them */
bool connections_hooks_want_one_more(void);   /* the same: one more may keep connections */
void connections_hooks_offer(uint32_t place); /* in the template: a place that is free */
void connections_note_life(bool is_short);
bool connections_is_refused(uint32_t hook);
bool connections_refuse_hook(uint32_t hook); /* for good; true: it was before */

#endif
