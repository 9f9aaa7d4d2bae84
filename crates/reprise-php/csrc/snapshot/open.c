/*
 * A clone opens its connections: it runs the hooks on PHP's stack, judges what each has left, and takes what it has
 * written into an image of its own (adopt.c). What a hook has done as a whole is taken or undone. On the service stack.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "../core/log.h"
#include "../core/options.h"
#include "../core/raw.h"
#include "../core/checks.h"
#include "kernel.h"
#include "prove.h"
#include "rewind.h"
#include "../core/snapshot_state.h"
#include "../connections/connections.h"
#include "ways.h"
#include "../interpose/traffic.h"
#include "../core/worker_state.h"
#include "open.h"
#include "adopt.h"

/* Why a connection is not kept, and whether that may be different the next time. */
struct refusal {
	struct raw_text text;
	bool is_refused, may_pass;
};

static void refuse(struct refusal *refusal, const char *why)
{
	refusal->is_refused = true;
	raw_add(&refusal->text, why);
}

static void refuse_for_now(struct refusal *refusal, const char *why)
{
	refusal->may_pass = true;
	refuse(refusal, why);
}

union peer {
	struct sockaddr any;
	struct sockaddr_in in4;
	struct sockaddr_in6 in6;
	struct sockaddr_un local;
};

static void add_peer(struct raw_text *text, const union peer *peer, long length)
{
	if (peer->any.sa_family == AF_UNIX) {
		raw_add(text, "unix:");
		raw_add(text, length > (long)sizeof(sa_family_t) ? peer->local.sun_path : "(unnamed)");
		return;
	}
	if (peer->any.sa_family == AF_INET) {
		const uint8_t *bytes = (const uint8_t *)&peer->in4.sin_addr;
		for (int i = 0; i < 4; i++) {
			raw_add(text, i ? "." : "");
			raw_add_number(text, bytes[i]);
		}
	} else {
		const uint8_t *bytes = (const uint8_t *)&peer->in6.sin6_addr;
		for (int i = 0; i < 32; i++) {
			const char digit[2] = {"0123456789abcdef"[bytes[i / 2] >> (i % 2 ? 0 : 4) & 15], 0};
			raw_add(text, i % 4 == 0 && i ? ":" : "");
			raw_add(text, digit);
		}
	}
	raw_add(text, ", port ");
	raw_add_number(text, (uint64_t)(uint16_t)(peer->in4.sin_port << 8 | peer->in4.sin_port >> 8));
}

static bool may_go_to(const union peer *peer)
{
	const char *networks = reprise_options.kept_networks ? reprise_options.kept_networks : "";
	size_t size = 0;

	while (networks[size]) {
		size++;
	}
	switch (peer->any.sa_family) {
	case AF_UNIX: return true;
	case AF_INET: return db_session_may_go_to((const uint8_t *)networks, size, (const uint8_t *)&peer->in4.sin_addr, 4);
	case AF_INET6:
		return db_session_may_go_to((const uint8_t *)networks, size, (const uint8_t *)&peer->in6.sin6_addr, 16);
	default: return false;
	}
}

/* What the refusal is about, without control characters. A hook's statement may be long. */
static void add_said(struct raw_text *text, const struct kept_connection *connection, const size_t *about)
{
	char said[64];
	size_t size = about[1] < sizeof said - 1 ? about[1] : sizeof said - 1;

	if (size == 0 || about[0] > connection->said || size > connection->said - about[0]) {
		return;
	}
	for (size_t i = 0; i < size; i++) {
		unsigned char byte = connection->sent[about[0] + i];
		said[i] = byte < ' ' || byte >= 0x7f ? ' ' : (char)byte;
	}
	said[size] = 0;
	raw_add(text, ": ");
	raw_add(text, said);
}

static void judge(struct kept_connection *connection, struct refusal *refusal)
{
	union peer peer = {0};
	socklen_t length = sizeof peer - 1;
	uint8_t words[db_session_REASON_SIZE];
	size_t about[2] = {0};

	raw_add(&refusal->text, "the connection to ");
	if (RAW3(SYS_getpeername, connection->number, &peer, &length) < 0) {
		refuse_for_now(refusal, "a server that is gone");
		return;
	}
	add_peer(&refusal->text, &peer, (long)length);
	raw_add(&refusal->text, " is not kept: ");
	if (connection->is_passed_by) {
		refuse(refusal, "its hook has sent more than can be followed");
		return;
	}
	uint32_t why = db_session_plan(&connection->state, connection->sent, connection->said, &about);
	if (IS_PLANTED(PLANTED_KEEP_ANY) && why) {
		static const uint8_t ping[] = "*1\r\n$4\r\nPING\r\n";
		why = db_session_plan(&connection->state, ping, sizeof ping - 1, &about);
	}
	if (why) {
		db_session_refusal(why, &words);
		refuse(refusal, (const char *)words);
		add_said(&refusal->text, connection, why == db_session_ABOUT_STATEMENT ? about : (size_t[2]){0});
		return;
	}
	if (!may_go_to(&peer)) {
		refuse(refusal, "it leaves this machine, and `kept_networks` does not name the server's network");
		return;
	}
	long flags = RAW3(SYS_fcntl, connection->number, F_GETFL, 0);
	if (flags < 0 || RAW3(SYS_fcntl, connection->number, F_SETFD, FD_CLOEXEC) < 0 || !connections_is_idle(connection)) {
		refuse_for_now(refusal, "its hook has left replies unread, or the server has closed it");
		return;
	}
	connection->flags = (int)flags;
	const char *wrong = "it takes no reset";
	enum confirmation found = NOT_NOW;
	if (connections_reset_one(connection)) {
		found = connections_confirm(connection, &wrong);
	}
	if (found == CONFIRMED || IS_PLANTED(PLANTED_KEEP_ANY)) {
		return;
	}
	refuse(refusal, wrong);
	refusal->may_pass = found != NEVER;
}

/* That the hook has left nothing but connections. The order is that of a rewind. */
static const char *settle(void)
{
	if (snapshot->connections.opened > 0) {
		snapshot->kernel.descriptors += (int64_t)(snapshot->connections.opened - snapshot->connections.count);
		snapshot->connections.count = snapshot->connections.opened;
	}
	snapshot_prove_alone();
	if ((uintptr_t)RAW1(SYS_brk, 0) != snapshot->image.brk || snapshot->notes.fresh_count > 0
	    || (snapshot->notes.dirty & (DIRTY_MAPPINGS | DIRTY_OPENED | DIRTY_GUARDS)) || !snapshot_sizes_are_right()) {
		return "a hook has mapped memory: load what it needs before reprise_snapshot(), by a first connection for "
		       "example";
	}
	if (snapshot->notes.dirty & DIRTY_DROPPED) {
		return "a hook has dropped memory of the snapshot, by madvise";
	}
	if (!snapshot_has_only_known_descriptors()) {
		return "a hook has opened something that is no connection of a client";
	}
	const char *why = snapshot_adopt_pages();
	if (!why) {
		/* If somebody else has cleared marks, not all that the hook has written was adopted. */
		snapshot_prove_watched(true);
		snapshot_kernel_restore();
		snapshot_watch_goes_on();
		if (reprise_options.audits) {
			snapshot_audit(false);
		}
	}
	return why;
}

/* Only this hook is undone. */
static void undo(size_t had)
{
	struct connections *all = &snapshot->connections;

	snapshot->kernel.descriptors -= (int64_t)(all->count - had);
	all->count = all->opened = had;
	raw_copy(&snapshot->php, &all->before, sizeof all->before);
	snapshot_rewind();
}

/* As if no hook had run, but for what the last one has left in memory and open. A fresh clone takes this one's place.
 */
static void forget_all(void)
{
	struct connections *all = &snapshot->connections;

	snapshot->kernel.descriptors -= (int64_t)all->count;
	all->count = all->opened = 0;
	raw_copy(&snapshot->php, &all->php, sizeof all->php);
	snapshot_disown_pages();
	all->is_to_leave = true;
}

/* A connection of an earlier hook may not be what it was. */
static void undo_all(void)
{
	forget_all();
	/* What the last hook has written is still marked. All else is looked at, too. */
	snapshot->notes.dirty |= DIRTY_MEMORY;
	snapshot_rewind();
}

/* Connections of hooks before this one are those that were kept, and nobody has used them since. */
static void judge_earlier_ones(size_t had, struct refusal *refusal)
{
	const struct connections *all = &snapshot->connections;
	bool are_used = all->is_touched;

	for (size_t i = 0; i < had; i++) {
		are_used = are_used || !interpose_connection_is_open(&all->of[i]);
	}
	if (are_used) {
		refuse(refusal, "connections are not kept: a hook uses or closes a connection of another one");
	} else if (!connections_are_alive()) {
		refuse_for_now(refusal, "connections are not kept: a server has closed one while other hooks ran");
	}
}

static void judge_hook(size_t had, struct refusal *refusal)
{
	struct connections *all = &snapshot->connections;

	if (all->has_failed) {
		refuse_for_now(refusal, "");
		return;
	}
	interpose_forget_closed();
	if (all->has_too_many) {
		refuse(refusal, "connections are not kept: a worker keeps at most 8, and its hooks have opened more");
	}
	for (size_t i = had; i < all->opened && !refusal->is_refused; i++) {
		refusal->text.size = 0;
		judge(&all->of[i], refusal);
	}
	if (!refusal->is_refused) {
		const char *why = settle();
		refusal->text.size = 0;
		if (why) {
			refuse(refusal, why);
		}
	}
}

static void say(uint32_t hook, struct refusal *refusal)
{
	size_t end = refusal->text.size < sizeof refusal->text.bytes ? refusal->text.size : sizeof refusal->text.bytes - 1;
	bool is_known = !refusal->may_pass && connections_refuse_hook(hook);

	refusal->text.bytes[end] = 0;
	if (!is_known && refusal->text.size > 0) {
		reprise_service_log("warning", refusal->text.bytes,
		                    refusal->may_pass ? "a later worker tries again" : "requests open their own");
	}
}

/* False: nothing is kept, and no other hook may run. */
static bool open_by(uint32_t hook)
{
	struct connections *all = &snapshot->connections;
	size_t had = all->opened = all->count;
	struct refusal refusal = {0};

	raw_copy(&all->before, &snapshot->php, sizeof all->before);
	all->opening = hook + 1;
	all->has_failed = all->has_too_many = all->is_touched = false;
	snapshot->notes.dirty = 0;
	snapshot->notes.in_request = true;
	connections_hook_begins();
	swapcontext(&snapshot->service, &snapshot->php);
	snapshot->notes.in_request = false;
	all->opening = 0;
	judge_earlier_ones(had, &refusal);
	bool are_whole = !refusal.is_refused;
	if (are_whole) {
		judge_hook(had, &refusal);
	}
	if (!refusal.is_refused) {
		snapshot->notes.dirty = 0;
		connections_hook_ended();
		return true;
	}
	if (are_whole) {
		undo(had);
	} else {
		undo_all();
	}
	/* From here on it has not died of what the hook has left. */
	connections_hook_ended();
	say(hook, &refusal);
	if (refusal.may_pass) {
		all->is_waiting = true;
	}
	return are_whole;
}

void snapshot_connections_open(void)
{
	struct connections *all = &snapshot->connections;

	if (all->hooks == 0) {
		return;
	}
	all->is_beyond = reprise_worker->place >= reprise_options.kept;
	if (all->is_beyond) {
		return;
	}
	raw_copy(&all->php, &snapshot->php, sizeof all->php);
	if (!connections_hooks_may_run()) {
		all->is_waiting = true;
		return;
	}
	for (uint32_t hook = 0; hook < all->hooks; hook++) {
		if (!connections_is_refused(hook) && !open_by(hook)) {
			break;
		}
	}
	if (all->is_waiting) {
		connections_hooks_failed();
	} else if (!all->is_to_leave) {
		connections_hooks_went_well();
	}
	ipc_keeps(&reprise_worker->ipc, (uint32_t)all->count);
}

void snapshot_connections_drop(void)
{
	const struct connections *all = &snapshot->connections;

	for (size_t i = 0; i < all->count; i++) {
		if (interpose_connection_is_open(&all->of[i])) {
			RAW1(SYS_close, all->of[i].number);
		}
	}
	forget_all();
	snapshot_watch_goes_on();
	ipc_keeps(&reprise_worker->ipc, 0);
}
