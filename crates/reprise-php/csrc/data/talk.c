/*
 * See talk.h. A conversation is a pair of sockets, one end of which goes to the process through the door. Descriptors
 * are made and closed by raw system calls: they are not the request's, and are closed before its end is looked at.
 */
#define _GNU_SOURCE
#include <php.h>

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "../engine/interrupt.h"
#include "../core/raw.h"
#include "talk.h"
#include "clock.h"
#include "../core/data_state.h"

/* Who asks for a lock next gets it, unless giving it back takes longer. */
#define GIVE_BACK_MS 1000
/* A wait looks so often whether the request is to end. */
#define LOOK_MS 50

static bool is_at_end;

bool data_talk_is_possible(void)
{
	return reprise_data->is_attached && reprise_data->door > 0
	       && data_cache_store_is_ready(&reprise_data->process, data_now());
}

static bool give_end(int end)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof end)];
	} control = {0};
	char byte = 0;
	struct iovec one = {&byte, 1};
	struct msghdr message = {
	    .msg_iov = &one, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};

	control.head = (struct cmsghdr){CMSG_LEN(sizeof end), SOL_SOCKET, SCM_RIGHTS};
	memcpy(CMSG_DATA(&control.head), &end, sizeof end);
	return RAW3(SYS_sendmsg, reprise_data->door, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

int data_talk_open(void)
{
	int ends[2];
	size_t place = 0;

	while (place < DATA_MOST_TALKS && reprise_data->talks[place].file) {
		place++;
	}
	if (place == DATA_MOST_TALKS
	    || RAW4(SYS_socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0) {
		return -1;
	}
	bool is_given = give_end(ends[1]);
	RAW1(SYS_close, ends[1]);
	if (!is_given) {
		RAW1(SYS_close, ends[0]);
		return -1;
	}
	reprise_data->talks[place] = (struct data_talk){.file = ends[0] + 1};
	return (int)place;
}

void data_talk_close(int talk)
{
	if (talk >= 0 && reprise_data->talks[talk].file) {
		RAW1(SYS_close, reprise_data->talks[talk].file - 1);
		reprise_data->talks[talk] = (struct data_talk){0};
	}
}

void data_talk_names(int talk, uint64_t name)
{
	reprise_data->talks[talk].name = name;
}

int data_talk_named(uint64_t name)
{
	for (int i = 0; i < DATA_MOST_TALKS; i++) {
		if (reprise_data->talks[i].file && reprise_data->talks[i].name == name) {
			return i;
		}
	}
	return -1;
}

/* False: it is too late, or the request is to end, if it has not ended. */
static bool wait_for(int file, short events, uint64_t until)
{
	for (;;) {
		uint64_t now = data_now();
		if (now >= until || (!is_at_end && engine_is_interrupted())) {
			return false;
		}
		uint64_t left = until - now < LOOK_MS ? until - now : LOOK_MS;
		struct timespec time = {0, (long)left * 1000000};
		struct pollfd watched = {.fd = file, .events = events};
		if (raw6(SYS_ppoll, (long)&watched, 1, (long)&time, 0, RAW_SIGSET_SIZE, 0) > 0) {
			return true;
		}
	}
}

static bool send_all(int file, struct iovec *parts, size_t count, uint64_t until)
{
	while (count > 0) {
		struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
		long sent = RAW3(SYS_sendmsg, file, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent < 0 && sent != -EAGAIN && sent != -EINTR) {
			return false;
		}
		for (; sent >= 0 && count > 0 && (size_t)sent >= parts->iov_len; count--) {
			sent -= (long)parts->iov_len;
			parts++;
		}
		if (sent > 0) {
			parts->iov_base = (char *)parts->iov_base + sent;
			parts->iov_len -= (size_t)sent;
		}
		if (count > 0 && !wait_for(file, POLLOUT, until)) {
			return false;
		}
	}
	return true;
}

static bool receive_all(int file, char *target, size_t size, uint64_t until)
{
	while (size > 0) {
		long received = RAW3(SYS_read, file, target, size);
		if (received == 0 || (received < 0 && received != -EAGAIN && received != -EINTR)) {
			return false;
		}
		if (received > 0) {
			target += received;
			size -= (size_t)received;
		}
		if (size > 0 && !wait_for(file, POLLIN, until)) {
			return false;
		}
	}
	return true;
}

static bool receive_part(int file, zend_string **part, size_t size, uint64_t until)
{
	if (size == 0) {
		return true;
	}
	*part = zend_string_alloc(size, false);
	ZSTR_VAL(*part)[size] = 0;
	return receive_all(file, ZSTR_VAL(*part), size, until);
}

static struct iovec part_of(const zend_string *text)
{
	return text ? (struct iovec){(void *)(uintptr_t)ZSTR_VAL(text), ZSTR_LEN(text)} : (struct iovec){NULL, 0};
}

bool data_talk_ask(int talk, struct data_cache_Head head, const struct talk_parts *parts, uint64_t milliseconds,
                   struct talk_reply *reply)
{
	int file = reprise_data->talks[talk].file - 1;
	uint64_t until = data_now() + milliseconds;
	struct iovec all[] = {
	    {&head, sizeof head}, part_of(parts->key), part_of(parts->tags), part_of(parts->value), part_of(parts->old)};

	*reply = (struct talk_reply){0};
	head.key_size = (uint32_t)all[1].iov_len;
	head.tags_size = (uint32_t)all[2].iov_len;
	head.value_size = (uint32_t)(all[3].iov_len + all[4].iov_len);
	head.third = all[4].iov_len;
	bool is_replied = data_cache_talk_is_sound(&head) && send_all(file, all, sizeof all / sizeof *all, until)
	                  && receive_all(file, (char *)&reply->head, sizeof reply->head, until)
	                  && data_cache_talk_is_sound(&reply->head) && reply->head.key_size == 0
	                  && receive_part(file, &reply->tags, reply->head.tags_size, until)
	                  && receive_part(file, &reply->value, reply->head.value_size, until);
	if (!is_replied) {
		data_talk_forget(reply);
		data_talk_close(talk);
	}
	return is_replied;
}

/* Without PHP's memory: at the end of a request. */
void data_talk_give_back(int talk)
{
	int file = reprise_data->talks[talk].file - 1;
	uint64_t until = data_now() + GIVE_BACK_MS;
	struct data_cache_Head head = {.word = Release};
	struct iovec part = {&head, sizeof head};

	if (file >= 0 && send_all(file, &part, 1, until)) {
		(void)receive_all(file, (char *)&head, sizeof head, until);
	}
	data_talk_close(talk);
}

void data_talk_forget(struct talk_reply *reply)
{
	if (reply->tags) {
		zend_string_free(reply->tags);
	}
	if (reply->value) {
		zend_string_release(reply->value);
	}
	reply->tags = reply->value = NULL;
}

void data_talk_end(void)
{
	is_at_end = true;
	for (int i = 0; i < DATA_MOST_TALKS; i++) {
		if (reprise_data->talks[i].name) {
			data_talk_give_back(i);
		} else {
			data_talk_close(i);
		}
	}
	is_at_end = false;
}

void data_talk_leave(void)
{
	for (int i = 0; i < DATA_MOST_TALKS; i++) {
		data_talk_close(i);
	}
}
