/*
 * What a server remembers of a connection is put back between two requests. On the service stack.
 *
 * The text of a reset is sent before memory is rewound, so that the server works meanwhile, and its replies are read
 * after that. Until they are right no request begins.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "../core/raw.h"
#include "../core/snapshot_state.h"
#include "connections.h"
#include "../core/recycle.h"
#include "../interpose/traffic.h"

/* Milliseconds for the replies to a reset. */
#define PATIENCE_MS 2000

/* Nothing that was not read, and no end. */
bool connections_is_idle(const struct kept_connection *connection)
{
	char byte;

	return raw6(SYS_recvfrom, connection->number, (long)&byte, 1, MSG_PEEK | MSG_DONTWAIT, 0, 0) == -EAGAIN;
}

bool connections_are_alive(void)
{
	const struct connections *all = &snapshot->connections;

	for (size_t i = 0; i < all->count; i++) {
		if (!interpose_connection_is_open(&all->of[i]) || !connections_is_idle(&all->of[i])) {
			return false;
		}
	}
	return true;
}

bool connections_reset_one(struct kept_connection *connection)
{
	uint8_t random[8];

	if (RAW3(SYS_getrandom, random, sizeof random, 0) != sizeof random) {
		return false;
	}
	size_t size = db_session_reset(&connection->state, &random, &connection->last, &snapshot->connections.text);
	return size > 0
	       && raw6(SYS_sendto, connection->number, (long)snapshot->connections.text, (long)size,
	               MSG_DONTWAIT | MSG_NOSIGNAL, 0, 0)
	              == (long)size;
}

/* Why a connection is given up. */
static enum confirmation give_up(const char **why, const char *reason, enum confirmation found)
{
	*why = reason;
	return found;
}

static enum confirmation judge_replies(struct kept_connection *connection, size_t size, bool *is_complete,
                                       const char **why)
{
	*is_complete = true;
	switch (db_session_judge(&connection->state, snapshot->connections.replies, size)) {
	case db_session_RIGHT:
		/* What the server has said before is over. */
		connection->last[0] = 0;
		return CONFIRMED;
	case db_session_INCOMPLETE: *is_complete = false; return NOT_NOW;
	case db_session_LANGUAGES:
		return give_up(why,
		               "PostgreSQL has an extension or a procedural language whose state no reset puts back, or a slot",
		               NEVER);
	case db_session_GREETED: return give_up(why, "the server's init_connect would have to run after each reset", NEVER);
	case db_session_ENDED: return give_up(why, "the server has ended the session or interrupted its reset", LOST);
	default: return give_up(why, "the server has not confirmed a reset of the connection", NEVER);
	}
}

enum confirmation connections_confirm(struct kept_connection *connection, const char **why)
{
	uint8_t *replies = snapshot->connections.replies;
	size_t size = 0;
	uint64_t until = raw_nanoseconds() + PATIENCE_MS * UINT64_C(1000000);

	while (size < MOST_REPLIES) {
		long count = raw6(SYS_recvfrom, connection->number, (long)(replies + size), (long)(MOST_REPLIES - size),
		                  MSG_DONTWAIT, 0, 0);
		if (count > 0) {
			bool is_complete;
			size += (size_t)count;
			enum confirmation found = judge_replies(connection, size, &is_complete, why);
			if (is_complete) {
				return found;
			}
			continue;
		}
		if (count != -EAGAIN && count != -EINTR) {
			return give_up(why, "the server has closed the connection", LOST);
		}
		uint64_t now = raw_nanoseconds();
		if (now >= until) {
			/* A server that says something is there. */
			return give_up(why, "the server has not replied to a reset of the connection within 2 s",
			               size > 0 ? LOST : NOT_NOW);
		}
		struct pollfd socket = {.fd = connection->number, .events = POLLIN};
		struct timespec rest = {(time_t)((until - now) / 1000000000), (long)((until - now) % 1000000000)};
		raw6(SYS_ppoll, (long)&socket, 1, (long)&rest, 0, RAW_SIGSET_SIZE, 0);
	}
	return give_up(why, "the server's replies to a reset of the connection are too long", NEVER);
}

static const char *begin_reset(struct kept_connection *connection)
{
	if (!interpose_connection_is_open(connection)) {
		return "a request has closed or replaced a kept connection";
	}
	if (connection->is_passed_by || (snapshot->notes.dirty & DIRTY_PASSED_BY)) {
		return "a request may have sent something on a kept connection that was not followed";
	}
	if (snapshot->notes.dirty & DIRTY_FORKED) {
		return "a child process of a request had a kept connection";
	}
	if (db_session_has_lasting(&connection->state)) {
		return "a request has sent a command whose effect no reset puts back";
	}
	if (!db_session_is_at_end(&connection->state)) {
		return "a request has left a message incomplete on a kept connection";
	}
	if (!connections_is_idle(connection)) {
		return "a request has left replies unread on a kept connection";
	}
	/* The server may be busy for long, or block. */
	if (db_session_awaits_reply(&connection->state)) {
		return "a request has not read the reply to what it has sent on a kept connection";
	}
	if (RAW3(SYS_fcntl, connection->number, F_SETFL, connection->flags) < 0 || !connections_reset_one(connection)) {
		return "a kept connection takes no reset";
	}
	return NULL;
}

/* Fewer requests than this make a short life. */
#define SHORT 10

void connections_begin_reset(void)
{
	struct connections *all = &snapshot->connections;

	if (all->count == 0) {
		return;
	}
	all->served++;
	for (size_t i = 0; i < all->count; i++) {
		const char *why = begin_reset(&all->of[i]);
		if (why) {
			connections_note_life(all->served < SHORT);
			reprise_recycle(ipc_Recycle_Connection, why);
		}
	}
	if (all->served == SHORT) {
		connections_note_life(false);
	}
}

void connections_end_reset(void)
{
	struct connections *all = &snapshot->connections;

	for (size_t i = 0; i < all->count; i++) {
		const char *why = NULL;
		enum confirmation found = connections_confirm(&all->of[i], &why);
		if (found == NOT_NOW) {
			/* The next clone would wait for the same server. */
			connections_hooks_failed();
		} else if (found != CONFIRMED) {
			/* The server is there: a visitor may have had the connection killed, or left something on it. */
			connections_note_life(all->served < SHORT);
		}
		if (found != CONFIRMED) {
			reprise_recycle(ipc_Recycle_Connection, why);
		}
	}
}

void connections_leave_if_wanted(void)
{
	const struct connections *all = &snapshot->connections;

	if (all->is_to_leave) {
		reprise_recycle(ipc_Recycle_Connection, "a kept connection was closed; a fresh worker opens it again");
	}
	if (all->is_waiting && connections_hooks_want_try()) {
		reprise_recycle(ipc_Recycle_Connection, "hooks have failed; a fresh worker tries again");
	}
	if (all->is_beyond && connections_hooks_want_one_more()) {
		reprise_recycle(ipc_Recycle_Connection, "fewer workers keep connections than may; a fresh one does");
	}
}

/* Servers write to their logs if a client leaves without it. */
void connections_say_goodbye(void)
{
	const struct connections *all = &snapshot->connections;

	for (size_t i = 0; i < all->count; i++) {
		uint8_t text[8];
		size_t size = db_session_goodbye((struct db_session_state *)&all->of[i].state, &text);
		if (interpose_connection_is_open(&all->of[i])) {
			raw6(SYS_sendto, all->of[i].number, (long)text, (long)size, MSG_DONTWAIT | MSG_NOSIGNAL, 0, 0);
		}
	}
}
