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

#include "../raw.h"
#include "../snapshot/clone.h"
#include "../snapshot/snapshot.h"
#include "connections.h"

/* Milliseconds for the replies to a reset. */
#define PATIENCE_MS 2000

static bool is_open(const struct kept_connection *connection)
{
	struct stat about;

	return RAW2(SYS_fstat, connection->number, &about) >= 0 && about.st_dev == connection->device
	       && about.st_ino == connection->inode;
}

/* Nothing that was not read, and no end. */
bool reprise_connection_is_idle(const struct kept_connection *connection)
{
	char byte;

	return raw6(SYS_recvfrom, connection->number, (long)&byte, 1, MSG_PEEK | MSG_DONTWAIT, 0, 0) == -EAGAIN;
}

bool reprise_connections_are_alive(void)
{
	const struct connections *all = &snapshot->connections;

	for (size_t i = 0; i < all->count; i++) {
		if (!reprise_connection_is_idle(&all->of[i])) {
			return false;
		}
	}
	return true;
}

bool reprise_connection_reset(struct kept_connection *connection)
{
	uint8_t random[8];

	if (RAW3(SYS_getrandom, random, sizeof random, 0) != sizeof random) {
		return false;
	}
	size_t size = connection_reset(&connection->state, &random, &connection->last, &snapshot->connections.text);
	return size > 0
	       && raw6(SYS_sendto, connection->number, (long)snapshot->connections.text, (long)size,
	               MSG_DONTWAIT | MSG_NOSIGNAL, 0, 0)
	              == (long)size;
}

const char *reprise_connection_confirm(struct kept_connection *connection)
{
	uint8_t *replies = snapshot->connections.replies;
	size_t size = 0;
	uint64_t until = raw_nanoseconds() + PATIENCE_MS * UINT64_C(1000000);

	while (size < MOST_REPLIES) {
		long count = raw6(SYS_recvfrom, connection->number, (long)(replies + size), (long)(MOST_REPLIES - size),
		                  MSG_DONTWAIT, 0, 0);
		if (count > 0) {
			size += (size_t)count;
			uint32_t verdict = connection_judge(&connection->state, replies, size);
			if (verdict == connection_RIGHT) {
				return NULL;
			}
			if (verdict == connection_LANGUAGES) {
				return "PostgreSQL has dblink or a procedural language, whose state no reset can put back";
			}
			if (verdict != connection_INCOMPLETE) {
				return "the server has not confirmed a reset of the connection";
			}
			continue;
		}
		if (count != -EAGAIN && count != -EINTR) {
			return "the server has closed the connection";
		}
		uint64_t now = raw_nanoseconds();
		if (now >= until) {
			return "the server has not replied to a reset of the connection within 2 s";
		}
		struct pollfd socket = {.fd = connection->number, .events = POLLIN};
		struct timespec rest = {(time_t)((until - now) / 1000000000), (long)((until - now) % 1000000000)};
		raw6(SYS_ppoll, (long)&socket, 1, (long)&rest, 0, RAW_SIGSET_SIZE, 0);
	}
	return "the server's replies to a reset of the connection are too long";
}

static const char *begin_reset(struct kept_connection *connection)
{
	if (!is_open(connection)) {
		return "a request has closed or replaced a kept connection";
	}
	if (connection->is_passed_by || (snapshot->dirty & DIRTY_PASSED_BY)) {
		return "a request may have sent something on a kept connection that was not followed";
	}
	if (snapshot->dirty & DIRTY_FORKED) {
		return "a child process of a request had a kept connection";
	}
	if (!connection_is_at_end(&connection->state)) {
		return "a request has left a message incomplete on a kept connection";
	}
	if (!reprise_connection_is_idle(connection)) {
		return "a request has left replies unread on a kept connection";
	}
	if (RAW3(SYS_fcntl, connection->number, F_SETFL, connection->flags) < 0 || !reprise_connection_reset(connection)) {
		return "a kept connection takes no reset";
	}
	return NULL;
}

void reprise_connections_begin_reset(void)
{
	struct connections *all = &snapshot->connections;

	for (size_t i = 0; i < all->count; i++) {
		const char *why = begin_reset(&all->of[i]);
		if (why) {
			reprise_recycle(wire_Recycle_Connection, why);
		}
	}
}

void reprise_connections_end_reset(void)
{
	struct connections *all = &snapshot->connections;

	for (size_t i = 0; i < all->count; i++) {
		const char *why = reprise_connection_confirm(&all->of[i]);
		if (why) {
			reprise_recycle(wire_Recycle_Connection, why);
		}
	}
}

void reprise_connections_leave_if_wanted(void)
{
	const struct connections *all = &snapshot->connections;

	if (all->is_to_leave) {
		reprise_recycle(wire_Recycle_Connection,
		                "the server had closed a kept connection; a fresh worker opens it again");
	}
	if (all->is_waiting && reprise_hooks_may_run()) {
		reprise_recycle(wire_Recycle_Connection, "a kept connection could not be opened; a fresh worker tries again");
	}
}
