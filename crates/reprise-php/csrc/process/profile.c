/*
 * See profile.h. A packet for each worker that has a request: a line with lane, process, what it does, microseconds
 * since the last look, method and path; then a line for each frame. What it does is in lower case when the request has
 * connected to a server. The last packet says "end", the lane, and what was
 * lost. Runs on any stack: raw system calls only. What is read of a worker may be anything: it is copied within bounds,
 * and read by nobody but the client.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "../engine/frames.h"
#include "forker.h"
#include "profile.h"
#include "../core/raw.h"
#include "../core/descriptors.h"
#include "../core/worker_state.h"
#include "../core/forker_state.h"

/* A frame that is not valid is read again so often. */
#define TRIES 3
#define MAX_PATH 200
/* Looking takes at most a hundredth of a processor. */
#define SHARE 100
/* The mean of so many looks says what one takes. */
#define MANY 64
#define US UINT64_C(1000)
#define MS (1000 * US)
#define S (1000 * MS)

/* Nanoseconds of processor time of this thread: while it waits for a processor it disturbs nobody. */
static uint64_t processor_time(void)
{
	struct timespec time = {0};

	RAW2(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * S + (uint64_t)time.tv_nsec;
}

static void add_bytes(struct profile *profile, const char *bytes, size_t size)
{
	if (size <= sizeof profile->bytes - profile->size) {
		raw_copy(profile->bytes + profile->size, bytes, size);
		profile->size += size;
	}
}

/* A whole line, or nothing of it. */
static void add_line(struct profile *profile, const struct raw_text *text)
{
	size_t size = text->size < sizeof text->bytes ? text->size : sizeof text->bytes;

	if (size + 1 <= sizeof profile->bytes - profile->size) {
		add_bytes(profile, text->bytes, size);
		add_bytes(profile, "\n", 1);
	}
}

static void add_frame(void *context, const struct raw_text *text)
{
	add_line(context, text);
}

static void send_packet(struct profile *profile)
{
	long sent =
	    raw6(SYS_sendto, profile->socket, (long)profile->bytes, (long)profile->size, MSG_DONTWAIT | MSG_NOSIGNAL, 0, 0);

	if (sent == -EAGAIN || sent == -ENOBUFS) {
		profile->lost++;
	} else if (sent < 0 && sent != -EINTR) {
		/* Nobody reads. */
		profile->until = 0;
	}
	profile->size = 0;
}

/* Reads a file of a process in /proc, into the packet, which is empty at this time. Its text, of which at most the
 * beginning is there; NULL if there is none. */
static const char *text_of(struct profile *profile, pid_t pid, const char *name)
{
	struct raw_text path = {0};

	raw_add(&path, "/proc/");
	raw_add_number(&path, (uint64_t)pid);
	raw_add(&path, name);
	long file = RAW4(SYS_openat, AT_FDCWD, path.bytes, O_RDONLY | O_CLOEXEC, 0);
	if (file < 0) {
		return NULL;
	}
	long size = RAW3(SYS_read, (int)file, profile->bytes, sizeof profile->bytes - 1);
	RAW1(SYS_close, (int)file);
	profile->bytes[size > 0 ? size : 0] = 0;
	return size > 0 ? profile->bytes : NULL;
}

/* What stands behind a name in /proc/PID/status, where each line begins with a name; NULL: it is not there. */
static const char *value_of(const char *text, const char *name)
{
	while (*text) {
		size_t same = 0;
		while (name[same] && text[same] == name[same]) {
			same++;
		}
		if (!name[same]) {
			return text + same;
		}
		while (*text && *text++ != '\n') {
		}
	}
	return NULL;
}

/* How often a process was given a processor: the last number of /proc/PID/schedstat. 0: the kernel does not say. */
static uint64_t arrivals_of(struct profile *profile, pid_t pid)
{
	const char *text = text_of(profile, pid, "/schedstat");
	uint64_t number = 0;

	for (int i = 0; text && i < 3; i++) {
		number = raw_number(&text);
		text += *text == ' ';
	}
	return number;
}

/* R: it runs; Q: it would if a processor were free; S: it waits; D: it waits for a disk; ?: it cannot be seen.
 * A process that has a processor was given one once more than it left one. */
static char state_of(struct profile *profile, pid_t pid)
{
	const char *text = text_of(profile, pid, "/status");
	const char *value = text ? value_of(text, "State:\t") : NULL;
	const char *left = value ? value_of(value, "voluntary_ctxt_switches:\t") : NULL;
	const char *taken = left ? value_of(left, "nonvoluntary_ctxt_switches:\t") : NULL;
	char state = value && *value >= 'A' && *value <= 'Z' ? *value : '?';

	if (state != 'R' || !taken) {
		return state;
	}
	uint64_t switches = raw_number(&left) + raw_number(&taken), arrivals = arrivals_of(profile, pid);
	return arrivals && arrivals == switches ? 'Q' : 'R';
}

static void add_span(struct raw_text *text, pid_t pid, struct ipc_Span span, size_t most)
{
	char bytes[MAX_PATH + 1];
	size_t size = span.length < most ? span.length : most;

	if (!span.offset || span.offset >= ipc_HEAD_SIZE || size > ipc_HEAD_SIZE - span.offset
	    || !engine_fetch(pid, reprise_worker->head + span.offset, bytes, size)) {
		raw_add(text, "?");
		return;
	}
	for (size_t i = 0; i < size; i++) {
		bytes[i] = bytes[i] > ' ' && bytes[i] < 127 ? bytes[i] : '?';
	}
	bytes[size] = 0;
	raw_add(text, bytes);
}

/* Whether it has a request. */
static bool look_at(struct profile *profile, pid_t pid, uint64_t since)
{
	struct ipc_RequestHead head;
	struct raw_text text = {0};
	char state[] = " ? ";
	bool has_request, has_connected;

	/* A process that is not ready for requests has nothing there. */
	if (!engine_fetch(pid, &reprise_worker->responding, &has_request, sizeof has_request) || !has_request
	    || !engine_fetch(pid, reprise_worker->head, &head, sizeof head)
	    || !engine_fetch(pid, &reprise_worker->connected, &has_connected, sizeof has_connected)) {
		return false;
	}
	raw_add_number(&text, profile->lane);
	raw_add(&text, " ");
	raw_add_number(&text, (uint64_t)pid);
	state[1] = state_of(profile, pid);
	if (has_connected && state[1] != '?') {
		state[1] = (char)(state[1] + ('a' - 'A'));
	}
	raw_add(&text, state);
	raw_add_number(&text, since / US);
	raw_add(&text, " ");
	add_span(&text, pid, head.method, 16);
	raw_add(&text, " ");
	add_span(&text, pid, head.uri, MAX_PATH);
	profile->size = 0;
	add_line(profile, &text);
	(void)engine_each_frame(pid, MOST_FRAMES, TRIES, add_frame, profile);
	send_packet(profile);
	return true;
}

static void end(struct profile *profile)
{
	struct raw_text text = {0};

	raw_add(&text, "end ");
	raw_add_number(&text, profile->lane);
	raw_add(&text, " ");
	raw_add_number(&text, profile->lost);
	raw_add(&text, " ");
	raw_add_number(&text, profile->looks);
	raw_add(&text, " ");
	raw_add_number(&text, profile->spent / US);
	profile->size = 0;
	add_line(profile, &text);
	send_packet(profile);
	RAW1(SYS_close, profile->socket);
	profile->socket = 0;
}

void process_profile_begin(struct forker *forker, const struct ipc_ToForker *what, int socket)
{
	struct profile *profile = &forker->profile;
	uint64_t now = raw_nanoseconds();

	if (profile->socket) {
		end(profile);
	}
	profile->socket = reprise_lift(socket);
	profile->lane = what->profile.lane;
	profile->interval = what->profile.interval_us > 100 ? what->profile.interval_us * US : 100 * US;
	profile->until = now + what->profile.duration_ms * MS;
	profile->last = now;
	profile->next = now + profile->interval;
	profile->looks = profile->spent = profile->lost = profile->recent_looks = profile->recent_spent = 0;
}

bool process_profile_wait(const struct forker *forker, struct timespec *wait)
{
	const struct profile *profile = &forker->profile;

	if (!profile->socket) {
		return false;
	}
	uint64_t now = raw_nanoseconds(), left = profile->next > now ? profile->next - now : 0;
	*wait = (struct timespec){.tv_sec = (time_t)(left / S), .tv_nsec = (long)(left % S)};
	return true;
}

/* Notes what a look has taken. The time that looks are to be apart follows from the mean of many: a look costs more at
 * some places of a request than at others; if it decided alone when the next one comes, that one would come to some
 * places more often than to others. One that finds nobody at work costs next to nothing, and says nothing of the
 * others. */
static uint64_t note_cost(struct profile *profile, uint64_t cost, bool has_seen)
{
	profile->looks++;
	profile->spent += cost;
	if (has_seen) {
		profile->recent_looks++;
		profile->recent_spent += cost;
	}
	if (profile->recent_looks == MANY) {
		profile->recent_looks /= 2;
		profile->recent_spent /= 2;
	}
	uint64_t mean = profile->spent / profile->looks;
	uint64_t recent = profile->recent_looks ? profile->recent_spent / profile->recent_looks : 0;
	return (mean > recent ? mean : recent) * SHARE;
}

/* From half to one and a half times as long, so that nothing which happens at regular times is seen always or never. */
static uint64_t jittered(uint64_t interval, uint64_t now)
{
	uint64_t random = (now >> 4) * UINT64_C(0x9e3779b97f4a7c15);

	return interval / 2 + (random >> 32) % interval;
}

void process_profile_turn(struct forker *forker)
{
	struct profile *profile = &forker->profile;
	uint64_t now;

	if (!profile->socket || (now = raw_nanoseconds()) < profile->next) {
		return;
	}
	if (now >= profile->until || forker->draining) {
		end(profile);
		return;
	}
	uint64_t before = processor_time();
	bool has_seen = false;
	for (size_t i = 0; i < sizeof forker->children / sizeof *forker->children; i++) {
		const struct forker_child *child = &forker->children[i];
		if (child->pid > 0 && !child->is_template) {
			has_seen |= look_at(profile, child->pid, now - profile->last);
		}
	}
	profile->last = now;
	uint64_t least = note_cost(profile, processor_time() - before, has_seen);
	profile->next = now + jittered(profile->interval > least ? profile->interval : least, now);
	profile->next = profile->next < profile->until ? profile->next : profile->until;
}
