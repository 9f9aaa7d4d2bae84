/*
 * What may not be open when a snapshot is taken: anything with a state outside of this process that a rewind cannot put
 * back. The server at the other end of a connection would continue from the state that the last request has left (user
 * variables, MULTI, unread rows). A file keeps what was written. All clones would share a lock, or none would have it.
 *
 * This runs on PHP's stack, in the template, with libc.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../core/options.h"
#include "refuse.h"
#include "../core/snapshot_state.h"
#include "../core/boot_failure.h"
#include "../core/forker_state.h"

/* Calls `each` with every descriptor below ipc_SERVICE_DESCRIPTOR, and with those above that are not reprise-php's. */
static void each_descriptor(void (*each)(int))
{
	DIR *directory = opendir("/proc/self/fd");
	struct dirent *entry;

	if (!directory) {
		reprise_boot_failed("/proc/self/fd cannot be read", strerror(errno));
	}
	while ((entry = readdir(directory))) {
		char *end;
		long number = strtol(entry->d_name, &end, 10);
		if (end == entry->d_name || number == dirfd(directory)) {
			continue;
		}
		each((int)number);
	}
	closedir(directory);
}

static bool is_owned(int number)
{
	for (size_t i = 0; i < snapshot->kernel.owned_count; i++) {
		if (snapshot->kernel.owned[i].number == number) {
			return true;
		}
	}
	return false;
}

static void own(int number, int flags, int64_t offset)
{
	struct stat about = {0};

	(void)fstat(number, &about);
	if (snapshot->kernel.owned_count == MAX_OWNED) {
		char limit[64];
		snprintf(limit, sizeof limit, "close some: the limit is %d", MAX_OWNED);
		reprise_boot_failed("too many descriptors are open at the snapshot", limit);
	}
	snapshot->kernel.owned[snapshot->kernel.owned_count++] = (struct owned){
	    .number = number,
	    .flags = flags,
	    .offset = offset,
	    .is_kept_on_exec = !(fcntl(number, F_GETFD) & FD_CLOEXEC),
	    .device = about.st_dev,
	    .inode = about.st_ino,
	};
}

static void note(int number)
{
	if (number < ipc_SERVICE_DESCRIPTOR || number == reprise_options.userfaultfd) {
		own(number, 0, -1);
	}
}

/* Links of /proc/self/task, which has a directory for each thread; 0: it cannot be read. */
static nlink_t thread_links(void)
{
	struct stat tasks;

	return stat("/proc/self/task", &tasks) == 0 ? tasks.st_nlink : 0;
}

/* Before the boot this process has one thread, and an emulator of another processor may have some of its own. */
static nlink_t links_before;

/* Before the boot. What is open now came with the process (standard streams, opcache's lock file), and stays. */
void snapshot_note_descriptors(void)
{
	snapshot->kernel.owned_count = 0;
	links_before = thread_links();
	each_descriptor(note);
}

static void describe_socket(int number, char *text, size_t size)
{
	union {
		struct sockaddr any;
		struct sockaddr_in in4;
		struct sockaddr_in6 in6;
		struct sockaddr_un local;
	} peer = {0};
	socklen_t length = sizeof peer;
	char address[INET6_ADDRSTRLEN] = "";

	if (getpeername(number, &peer.any, &length) != 0) {
		snprintf(text, size, "descriptor %d is a socket without a peer", number);
	} else if (peer.any.sa_family == AF_INET) {
		inet_ntop(AF_INET, &peer.in4.sin_addr, address, sizeof address);
		snprintf(text, size, "descriptor %d is a connection to %s:%u", number, address, ntohs(peer.in4.sin_port));
	} else if (peer.any.sa_family == AF_INET6) {
		inet_ntop(AF_INET6, &peer.in6.sin6_addr, address, sizeof address);
		snprintf(text, size, "descriptor %d is a connection to [%s]:%u", number, address, ntohs(peer.in6.sin6_port));
	} else if (peer.any.sa_family == AF_UNIX) {
		snprintf(text, size, "descriptor %d is a connection to unix:%s", number,
		         length > sizeof(sa_family_t) ? peer.local.sun_path : "(unnamed)");
	} else {
		snprintf(text, size, "descriptor %d is a socket", number);
	}
}

/* Whether this process has a lock on the file: /proc/locks says so. */
static bool is_locked(const struct stat *file)
{
	FILE *locks = fopen("/proc/locks", "re");
	char line[256];
	bool found = false;

	while (locks && !found && fgets(line, sizeof line, locks)) {
		unsigned major, minor;
		uint64_t inode;
		int pid;
		if (sscanf(line, "%*d: %*s %*s %*s %d %x:%x:%" SCNu64, &pid, &major, &minor, &inode) == 4) {
			found = pid == getpid() && inode == file->st_ino && major == major(file->st_dev)
			        && minor == minor(file->st_dev);
		}
	}
	if (locks) {
		fclose(locks);
	}
	return found;
}

static bool is_service(int number)
{
	return number == reprise_forker->control || number == reprise_forker->lifeline
	       || number == reprise_options.userfaultfd || number == reprise_options.data_store
	       || number == reprise_options.phar;
}

/* The pipes to the server's log are written to line by line, and nothing of a request stays in them. A logger that has
 * opened php://stdout in the boot keeps a copy of one. */
static bool is_pipe_to_log(const struct stat *about)
{
	for (size_t i = 0; i < snapshot->kernel.owned_count; i++) {
		const struct owned *owned = &snapshot->kernel.owned[i];
		if ((owned->number == STDOUT_FILENO || owned->number == STDERR_FILENO) && owned->device == about->st_dev
		    && owned->inode == about->st_ino) {
			return true;
		}
	}
	return false;
}

static void judge(int number)
{
	char text[512], path[32], target[256];
	struct stat about;
	int flags = fcntl(number, F_GETFL);

	if (is_owned(number) || is_service(number) || flags < 0 || fstat(number, &about) != 0) {
		return;
	}
	snprintf(path, sizeof path, "/proc/self/fd/%d", number);
	ssize_t length = readlink(path, target, sizeof target - 1);
	target[length > 0 ? length : 0] = 0;
	bool writes = (flags & O_ACCMODE) != O_RDONLY;
	if (S_ISSOCK(about.st_mode)) {
		describe_socket(number, text, sizeof text);
		reprise_boot_failed(
		    text, "close it before reprise_snapshot() and open it after the call: a rewind cannot reset the other end");
	}
	if (number >= ipc_SERVICE_DESCRIPTOR) {
		snprintf(text, sizeof text, "descriptor %d (%s) is above %d", number, target, ipc_SERVICE_DESCRIPTOR);
		reprise_boot_failed(text, "close it before reprise_snapshot()");
	}
	if (S_ISREG(about.st_mode) && writes) {
		snprintf(text, sizeof text, "descriptor %d is %s, open for writing", number, target);
		reprise_boot_failed(text,
		                    "close it before reprise_snapshot(): a rewind cannot take back what is written to it");
	}
	if (S_ISREG(about.st_mode) && is_locked(&about)) {
		snprintf(text, sizeof text, "descriptor %d is %s, and locked", number, target);
		reprise_boot_failed(text, "release the lock before reprise_snapshot(): all requests would share it");
	}
	if (S_ISREG(about.st_mode) || S_ISDIR(about.st_mode)) {
		own(number, flags & ~(O_CREAT | O_EXCL | O_TRUNC), lseek(number, 0, SEEK_CUR));
		return;
	}
	if (S_ISCHR(about.st_mode) || is_pipe_to_log(&about)) {
		own(number, flags, -1);
		return;
	}
	snprintf(text, sizeof text, "descriptor %d is %s", number, target);
	reprise_boot_failed(text, "close it before reprise_snapshot(): it is shared with the kernel or another process");
}

/* A fork does not copy timers of timer_create, and they cannot be made again as they were. */
static void refuse_timers(void)
{
	FILE *timers = fopen("/proc/self/timers", "re");

	if (timers && fgetc(timers) != EOF) {
		reprise_boot_failed("a timer (timer_create) exists at the snapshot", "delete it before reprise_snapshot()");
	}
	if (timers) {
		fclose(timers);
	}
}

/* The boot may have closed a descriptor, and opened another file with its number. That is judged as any file of the
 * boot.
 */
static void disown_what_was_replaced(void)
{
	size_t kept = 0;

	for (size_t i = 0; i < snapshot->kernel.owned_count; i++) {
		struct stat about;
		const struct owned *owned = &snapshot->kernel.owned[i];
		if (fstat(owned->number, &about) == 0 && about.st_dev == owned->device && about.st_ino == owned->inode) {
			snapshot->kernel.owned[kept++] = *owned;
		}
	}
	snapshot->kernel.owned_count = kept;
}

void snapshot_refuse_what_cannot_be_rewound(void)
{
	siginfo_t child = {0};

	if (!links_before || thread_links() != links_before) {
		reprise_boot_failed("a thread is running at the snapshot",
		                    "only a process of one thread can be forked and rewound");
	}
	while (waitpid(-1, NULL, WNOHANG) > 0) {
	}
	if (waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) == 0) {
		reprise_boot_failed("a child process is running at the snapshot", "wait for it before reprise_snapshot()");
	}
	refuse_timers();
	disown_what_was_replaced();
	each_descriptor(judge);
}
