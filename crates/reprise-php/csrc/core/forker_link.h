/* The socket from a forker to the supervisor. */
#ifndef REPRISE_FORKER_LINK_H
#define REPRISE_FORKER_LINK_H

struct forker;
struct ipc_FromForker;

/* Sends a message to the supervisor. */
void reprise_forker_tell(struct forker *forker, const struct ipc_FromForker *what);

/* The same with a descriptor attached. */
void reprise_forker_tell_with(struct forker *forker, const struct ipc_FromForker *what, int attached);

/* In a new child: closes the descriptors of the parent. */
void reprise_forker_leave(struct forker *forker);

#endif
