/*
 * single_step PID   Counts the instructions that a waiting worker executes, by address, and its system calls, by
 * number.
 *
 * The worker waits in a system call when it is seized: that call, at that address, is its idle wait. bench/instructions
 * writes commands, one a line, and reads answers:
 *
 *   step         executes instruction by instruction until the worker is about to wait again; "at N" now and then, then
 * "idle N" write FILE   writes what was counted since the last time, and counts anew; "written"
 *
 * At the end of its input it lets go, and the worker goes on at full speed. Lines of FILE, numbers in hexadecimal but
 * for counts:
 *
 *   i ADDRESS COUNT                               instructions
 *   s NUMBER COUNT                                system calls
 *   c CALLER CALLEE CALLS INSTRUCTIONS            calls by the functions' first addresses, with all that was executed
 * below
 *
 * Who calls whom is known by a stack of its own: a call puts the function on it, and a function has returned when the
 * stack pointer is above the place of its return address. So longjmp and exceptions need nothing special. x86-64 only.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOTS = 1 << 22, EDGES = 1 << 20, DEPTH = 1 << 14, CALLS = 1024, PROGRESS = 1 << 20 };

enum kind { UNKNOWN, OTHER, CALL, SYSCALL, THROUGH_TABLE };

struct place {
	uint64_t address, count;
	enum kind kind;
};

struct edge {
	uint64_t caller, callee, calls, instructions;
};

struct frame {
	uint64_t function, stack, steps; /* at its entry */
};

static pid_t pid;
static int memory = -1;
static struct place *places;
static struct edge *edges;
static uint64_t system_calls[CALLS];
static struct frame frames[DEPTH];
static size_t depth;
static uint64_t steps;
static uint64_t idle_at, idle_call;
static struct user_regs_struct registers;

static void __attribute__((noreturn)) fail(const char *what)
{
	printf("failed %s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- instructions ----------------------------------------------------------------------------------------------- */

/* The prefixes that compilers put before calls and jumps are skipped: bnd, notrack, segments, REX. */
static enum kind kind_of(uint64_t address)
{
	unsigned char code[16] = {0};
	size_t at = 0;

	if (pread(memory, code, sizeof code, (off_t)address) <= 0) {
		return OTHER;
	}
	if (code[0] == 0x0f && code[1] == 0x05) {
		return SYSCALL;
	}
	while (at < 4 && (code[at] == 0xf2 || code[at] == 0x3e || code[at] == 0x66 || (code[at] & 0xf0) == 0x40)) {
		at++;
	}
	if (code[at] == 0xe8 || (code[at] == 0xff && (code[at + 1] >> 3 & 7) == 2)) {
		return CALL;
	}
	return code[at] == 0xff && code[at + 1] == 0x25 ? THROUGH_TABLE : OTHER;
}

static size_t hash(uint64_t key, size_t slots)
{
	return (size_t)(key * UINT64_C(11400714819323198485) >> 20) % slots;
}

static struct place *place_of(uint64_t address)
{
	size_t at = hash(address, SLOTS);

	for (size_t tried = 0; tried < SLOTS; tried++) {
		if (places[at].kind == UNKNOWN) {
			places[at] = (struct place){address, 0, kind_of(address)};
		}
		if (places[at].address == address) {
			return &places[at];
		}
		at = (at + 1) % SLOTS;
	}
	errno = ENOSPC;
	fail("too many addresses");
}

/* ---- who calls whom --------------------------------------------------------------------------------------------- */

static struct edge *edge_of(uint64_t caller, uint64_t callee)
{
	size_t at = hash(caller ^ callee << 1, EDGES);

	for (size_t tried = 0; tried < EDGES; tried++) {
		if (!edges[at].callee) {
			edges[at] = (struct edge){caller, callee, 0, 0};
		}
		if (edges[at].caller == caller && edges[at].callee == callee) {
			return &edges[at];
		}
		at = (at + 1) % EDGES;
	}
	errno = ENOSPC;
	fail("too many calls");
}

static void leave(void)
{
	depth--;
	struct edge *edge = edge_of(depth ? frames[depth - 1].function : 0, frames[depth].function);
	edge->calls++;
	edge->instructions += steps - frames[depth].steps;
}

static void follow(enum kind before, uint64_t at_before)
{
	while (depth && registers.rsp > frames[depth - 1].stack) {
		leave();
	}
	if (before == CALL && depth < DEPTH) {
		frames[depth++] = (struct frame){registers.rip, registers.rsp, steps};
	}
	/* An entry of a table that leads to another library: the function is where it leads to. */
	if (before == THROUGH_TABLE && depth && at_before - frames[depth - 1].function <= 4
	    && registers.rsp == frames[depth - 1].stack) {
		frames[depth - 1].function = registers.rip;
	}
}

/* ---- stepping --------------------------------------------------------------------------------------------------- */

static void read_registers(void)
{
	if (ptrace(PTRACE_GETREGS, pid, 0, &registers)) {
		fail("the worker's registers cannot be read");
	}
}

/* The signal that the worker is to get with the next step. */
static int await_stop(void)
{
	int status;

	if (waitpid(pid, &status, 0) < 0) {
		fail("the worker cannot be waited for");
	}
	if (!WIFSTOPPED(status)) {
		printf("ended %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
		exit(1);
	}
	return status >> 16 == 0 && WSTOPSIG(status) != SIGTRAP ? WSTOPSIG(status) : 0;
}

static void step(void)
{
	uint64_t begun = steps;
	int signal_number = 0;

	for (;;) {
		struct place *before = place_of(registers.rip);
		if (ptrace(PTRACE_SINGLESTEP, pid, 0, signal_number)) {
			fail("the worker cannot be stepped");
		}
		signal_number = await_stop();
		uint64_t at_before = registers.rip;
		read_registers();
		if (registers.rip == at_before) {
			/* A string instruction with a prefix that repeats it stops after each of its turns. */
			continue;
		}
		before->count++;
		steps++;
		follow(before->kind, at_before);
		if (place_of(registers.rip)->kind == SYSCALL) {
			system_calls[registers.rax < CALLS ? registers.rax : 0]++;
			if (registers.rip == idle_at && registers.rax == idle_call) {
				break;
			}
		}
		if ((steps - begun) % PROGRESS == 0) {
			printf("at %lu\n", (unsigned long)(steps - begun));
		}
	}
	while (depth) {
		leave();
	}
	printf("idle %lu\n", (unsigned long)(steps - begun));
}

static void seize(void)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
	memory = open(path, O_RDONLY | O_CLOEXEC);
	if (memory < 0 || ptrace(PTRACE_SEIZE, pid, 0, 0) || ptrace(PTRACE_INTERRUPT, pid, 0, 0)) {
		fail("the worker cannot be seized");
	}
	await_stop();
	read_registers();
	if ((int64_t)registers.orig_rax < 0) {
		errno = EBUSY;
		fail("the worker does not wait");
	}
	/* The kernel repeats the call that it has interrupted. */
	idle_at = registers.rip - 2;
	idle_call = registers.orig_rax;
}

/* ---- results ---------------------------------------------------------------------------------------------------- */

static void write_counts(const char *path)
{
	FILE *out = fopen(path, "w");

	if (!out) {
		fail(path);
	}
	for (size_t i = 0; i < SLOTS; i++) {
		if (places[i].count) {
			fprintf(out, "i %lx %lu\n", (unsigned long)places[i].address, (unsigned long)places[i].count);
			places[i].count = 0;
		}
	}
	for (size_t i = 0; i < CALLS; i++) {
		if (system_calls[i]) {
			fprintf(out, "s %zx %lu\n", i, (unsigned long)system_calls[i]);
		}
	}
	for (size_t i = 0; i < EDGES; i++) {
		if (edges[i].calls) {
			fprintf(out, "c %lx %lx %lu %lu\n", (unsigned long)edges[i].caller, (unsigned long)edges[i].callee,
			        (unsigned long)edges[i].calls, (unsigned long)edges[i].instructions);
		}
	}
	memset(system_calls, 0, sizeof system_calls);
	memset(edges, 0, EDGES * sizeof *edges);
	if (fclose(out)) {
		fail(path);
	}
	puts("written");
}

int main(int argc, char **argv)
{
	char line[4096];

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc != 2 || (pid = atoi(argv[1])) <= 0) {
		fputs("usage: single_step PID\n", stderr);
		return 64;
	}
	places = calloc(SLOTS, sizeof *places);
	edges = calloc(EDGES, sizeof *edges);
	if (!places || !edges) {
		fail("memory");
	}
	seize();
	puts("ready");
	while (fgets(line, sizeof line, stdin)) {
		line[strcspn(line, "\n")] = '\0';
		if (strcmp(line, "step") == 0) {
			step();
		} else if (strncmp(line, "write ", 6) == 0) {
			write_counts(line + 6);
		}
	}
	ptrace(PTRACE_DETACH, pid, 0, 0);
	return 0;
}
