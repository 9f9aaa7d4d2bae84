/*
 * Calls by which PHP and its libraries send to a connection that is kept, receive from it and close it. The executable
 * has versions of its own, as in snapshot/dirty*.c.
 *
 * What a hook sends is recorded, because a reset has to say it again. Of what a request sends it is followed whether
 * the messages are whole. A call that is not followed here marks the connection, and the clone ends after the request.
 *
 * When a request has ended, objects of the snapshot are freed (engine/objects.c), and that closes the connections that
 * they own. Here it closes nothing: the rewind puts the objects back.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../core/raw.h"
#include "dirty.h"
#include "../core/snapshot_state.h"
#include "../core/worker_state.h"
#include "../core/connections_state.h"
#include "traffic.h"

void interpose_traffic(void)
{
}

static struct kept_connection *find_kept(int number)
{
	struct connections *all = &snapshot->connections;

	for (size_t i = 0; i < all->count; i++) {
		if (all->of[i].number == number) {
			return &all->of[i];
		}
	}
	return NULL;
}

bool interpose_is_kept(int number)
{
	return find_kept(number) != NULL;
}

bool interpose_connection_is_open(const struct kept_connection *connection)
{
	struct stat about;

	return RAW2(SYS_fstat, connection->number, &about) >= 0 && about.st_dev == connection->device
	       && about.st_ino == connection->inode;
}

void interpose_forget_closed(void)
{
	struct connections *all = &snapshot->connections;
	size_t left = all->count;

	for (size_t i = all->count; i < all->opened; i++) {
		bool is_open = interpose_connection_is_open(&all->of[i]);
		if (is_open && left != i) {
			all->of[left] = all->of[i];
		}
		left += is_open;
	}
	all->opened = left;
}

void interpose_connections_hold(bool holds)
{
	snapshot->connections.is_holding = holds && snapshot->connections.count > 0;
}

#ifndef __SANITIZE_ADDRESS__

/* A hook has opened a socket that was not seen before. */
static struct kept_connection *note_opened(int number)
{
	struct connections *all = &snapshot->connections;
	struct stat about;

	if (RAW2(SYS_fstat, number, &about) < 0 || !S_ISSOCK(about.st_mode)) {
		return NULL;
	}
	for (size_t i = 0; i < all->opened; i++) {
		if (all->of[i].number == number && interpose_connection_is_open(&all->of[i])) {
			all->is_touched = all->is_touched || i < all->count;
			return &all->of[i];
		}
	}
	if (all->opened == MOST_KEPT) {
		interpose_forget_closed();
	}
	if (all->opened == MOST_KEPT) {
		all->has_too_many = true;
		return NULL;
	}
	struct kept_connection *made = &all->of[all->opened++];
	made->number = number;
	made->device = about.st_dev;
	made->inode = about.st_ino;
	made->said = 0;
	made->is_passed_by = false;
	made->last[0] = 0;
	return made;
}

/* One that is kept, or that the hook that runs has opened. */
static struct kept_connection *of(int number)
{
	if (!is_watching()) {
		return NULL;
	}
	return snapshot->connections.opening ? note_opened(number) : find_kept(number);
}

static void record(struct kept_connection *connection, const void *bytes, size_t size)
{
	if (!snapshot->connections.opening) {
		db_session_sent(&connection->state, bytes, size);
		return;
	}
	if (size > MOST_SAID - connection->said) {
		connection->is_passed_by = true;
		return;
	}
	raw_copy(connection->sent + connection->said, bytes, size);
	connection->said += size;
}

/* A call that sends. What is sent while objects of the snapshot are freed is not sent. */
static ssize_t follow(int number, const void *bytes, size_t size, int flags,
                      long (*send_it)(int, const void *, size_t, int))
{
	struct kept_connection *connection = of(number);

	if (connection && snapshot->connections.is_holding) {
		return (ssize_t)size;
	}
	long count = send_it(number, bytes, size, flags);
	if (connection && count > 0) {
		record(connection, bytes, (size_t)count);
	}
	return result(count);
}

static long raw_send(int number, const void *bytes, size_t size, int flags)
{
	return raw6(SYS_sendto, number, (long)bytes, (long)size, flags, 0, 0);
}

static long raw_write(int number, const void *bytes, size_t size, int flags)
{
	(void)flags;
	return RAW3(SYS_write, number, bytes, size);
}

PUBLIC ssize_t send(int number, const void *bytes, size_t size, int flags)
{
	return follow(number, bytes, size, flags, raw_send);
}

PUBLIC ssize_t write(int number, const void *bytes, size_t size)
{
	return follow(number, bytes, size, 0, raw_write);
}

PUBLIC int connect(int number, const struct sockaddr *to, socklen_t length)
{
	long done = RAW3(SYS_connect, number, to, length);

	/* A hook that sends nothing on it is told so. */
	if (done >= 0 || done == -EINPROGRESS) {
		if (reprise_worker) {
			reprise_worker->connected = true;
		}
		(void)of(number);
	}
	return (int)result(done);
}

static void pass_by(int number)
{
	struct kept_connection *connection = of(number);

	if (connection) {
		connection->is_passed_by = true;
	}
}

PUBLIC ssize_t sendto(int number, const void *bytes, size_t size, int flags, const struct sockaddr *to,
                      socklen_t length)
{
	pass_by(number);
	return result(raw6(SYS_sendto, number, (long)bytes, (long)size, flags, (long)to, length));
}

PUBLIC ssize_t sendmsg(int number, const struct msghdr *message, int flags)
{
	pass_by(number);
	return result(RAW3(SYS_sendmsg, number, message, flags));
}

PUBLIC int sendmmsg(int number, struct mmsghdr *messages, unsigned count, int flags)
{
	pass_by(number);
	return (int)result(RAW4(SYS_sendmmsg, number, messages, count, flags));
}

PUBLIC ssize_t writev(int number, const struct iovec *parts, int count)
{
	pass_by(number);
	return result(RAW3(SYS_writev, number, parts, count));
}

PUBLIC ssize_t sendfile(int to, int from, off_t *offset, size_t size)
{
	pass_by(to);
	return result(RAW4(SYS_sendfile, to, from, offset, size));
}

PUBLIC ssize_t sendfile64(int to, int from, off64_t *offset, size_t size)
{
	pass_by(to);
	return result(RAW4(SYS_sendfile, to, from, offset, size));
}

PUBLIC ssize_t splice(int from, off64_t *from_offset, int to, off64_t *to_offset, size_t size, unsigned flags)
{
	pass_by(to);
	return result(raw6(SYS_splice, from, (long)from_offset, to, (long)to_offset, (long)size, flags));
}

void interpose_note_raw_call(long number, long descriptor)
{
	switch (number) {
	case SYS_write:
	case SYS_writev:
	case SYS_pwritev2:
	case SYS_sendto:
	case SYS_sendmsg:
	case SYS_sendmmsg:
	case SYS_sendfile:
	case SYS_setsockopt:
	case SYS_shutdown: pass_by((int)descriptor); break;
	default: break;
	}
}

/* The last bytes say whether a transaction is open (PostgreSQL). */
static void remember_last(struct kept_connection *connection, const unsigned char *bytes, size_t size)
{
	const size_t room = sizeof connection->last;

	if (size < room) {
		for (size_t i = 0; i < room - size; i++) {
			connection->last[i] = connection->last[i + size];
		}
		raw_copy(connection->last + room - size, bytes, size);
	} else {
		raw_copy(connection->last, bytes + size - room, room);
	}
}

PUBLIC ssize_t recv(int number, void *bytes, size_t size, int flags)
{
	struct kept_connection *connection = of(number);

	if (connection && snapshot->connections.is_holding) {
		return 0;
	}
	long count = raw6(SYS_recvfrom, number, (long)bytes, (long)size, flags, 0, 0);
	if (connection && count > 0 && !(flags & MSG_PEEK)) {
		remember_last(connection, bytes, (size_t)count);
		if (!snapshot->connections.opening) {
			db_session_heard(&connection->state);
		}
	}
	return result(count);
}

/* A driver that closes a connection may wait for replies first. */
PUBLIC int poll(struct pollfd *all, nfds_t count, int patience)
{
	struct timespec time = {patience / 1000, patience % 1000 * 1000000L};
	/* The header says of poll() that it reads nothing there. */
	struct pollfd *volatile first = all;

	if (is_watching() && snapshot->connections.is_holding && count == 1 && of(first->fd)) {
		all->revents = all->events;
		return 1;
	}
	return (int)result(raw6(SYS_ppoll, (long)all, (long)count, patience < 0 ? 0 : (long)&time, 0, RAW_SIGSET_SIZE, 0));
}

/* A request's options would stay. */
PUBLIC int setsockopt(int number, int level, int name, const void *value, socklen_t size)
{
	if (is_watching() && !snapshot->connections.opening) {
		pass_by(number);
	}
	return (int)result(raw6(SYS_setsockopt, number, level, name, (long)value, (long)size, 0));
}

PUBLIC int shutdown(int number, int how)
{
	struct kept_connection *connection = of(number);

	if (connection && snapshot->connections.is_holding) {
		return 0;
	}
	if (connection) {
		connection->is_passed_by = true;
	}
	return (int)result(RAW2(SYS_shutdown, number, how));
}

#else

void interpose_note_raw_call(long number, long descriptor)
{
	(void)number;
	(void)descriptor;
}

#endif
