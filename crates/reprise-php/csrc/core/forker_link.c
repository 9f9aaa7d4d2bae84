/* The socket from a forker to the supervisor. Nothing here calls libc: templates run on the service stack. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "forker_link.h"
#include "forker_state.h"
#include "raw.h"
#include "ipc.h"

/* The socket takes the message at once, because the supervisor always reads. If the supervisor is gone, the lifeline
 * says so. */
void reprise_forker_tell_with(struct forker *forker, const struct ipc_FromForker *what, int attached)
{
	uint8_t bytes[ipc_MAX_PACKET];
	_Alignas(struct cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec part = {bytes, ipc_write_message(what, &bytes)};
	struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};

	if (attached >= 0) {
		packet.msg_control = space;
		packet.msg_controllen = sizeof space;
		struct cmsghdr *header = CMSG_FIRSTHDR(&packet);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(int));
		*(int *)(void *)CMSG_DATA(header) = attached;
	}
	while (RAW3(SYS_sendmsg, forker->control, &packet, MSG_NOSIGNAL) == -EINTR) {
	}
}

void reprise_forker_tell(struct forker *forker, const struct ipc_FromForker *what)
{
	reprise_forker_tell_with(forker, what, -1);
}

void reprise_forker_leave(struct forker *forker)
{
	RAW1(SYS_close, forker->signals);
	RAW1(SYS_close, forker->control);
	forker->control = -1;
	if (forker->watcher >= 0) {
		RAW1(SYS_close, forker->watcher);
		forker->watcher = -1;
	}
	if (forker->profile.socket) {
		RAW1(SYS_close, forker->profile.socket);
		forker->profile.socket = 0;
	}
}
