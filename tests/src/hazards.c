/*
 * What an extension or a library might do to the process it is loaded into, for the tests of rewinding. Built and
 * loaded by them through FFI, so every call below goes through the dynamic linker, as a library's would.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

size_t address(void *memory)
{
	return (size_t)memory;
}

int byte_at(unsigned char *memory)
{
	return *memory;
}

/* A child that shares the memory writes to it. */
int vfork_write(char *to, int byte, size_t size)
{
	int status;
	pid_t child = vfork();

	if (child == 0) {
		memset(to, byte, size);
		_exit(7);
	}
	return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The same, and nobody waits for it. */
int vfork_unreaped(char *to, int byte, size_t size)
{
	pid_t child = vfork();

	if (child == 0) {
		memset(to, byte, size);
		_exit(0);
	}
	return child > 0;
}

static void *sleeper(void *nothing)
{
	for (;;) {
		pause();
	}
	return nothing;
}

static void *writer(void *to)
{
	memset(to, 'T', 65536);
	return NULL;
}

/* A thread that stays, and with it this library: in classic mode PHP unloads it at the end of the request. */
int start_thread(void)
{
	pthread_t thread;
	Dl_info own;

	if (!dladdr((void *)start_thread, &own) || !dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE)) {
		return -1;
	}
	return pthread_create(&thread, NULL, sleeper, NULL);
}

/* A thread that writes and ends. */
int joined_thread(char *to)
{
	pthread_t thread;

	return pthread_create(&thread, NULL, writer, to) == 0 ? pthread_join(thread, NULL) : -1;
}

struct late {
	char *to;
	int pipe;
};

static int late_writer(void *argument)
{
	struct late *late = argument;
	char byte;

	read(late->pipe, &byte, 1);
	memset(late->to, 'L', 65536);
	return 0;
}

/* A child process with the same memory, which writes when a FIFO has a byte. */
int late_child(char *to, const char *fifo)
{
	static struct late late;
	char *stack = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	late.to = to;
	late.pipe = open(fifo, O_RDWR);
	return clone(late_writer, stack + 65536, CLONE_VM | SIGCHLD, &late);
}

int start_timer(void)
{
	timer_t timer;
	struct itimerspec in = {.it_value = {.tv_nsec = 300000000}};

	return timer_create(CLOCK_MONOTONIC, NULL, &timer) || timer_settime(timer, 0, &in, NULL);
}

int start_itimer(int which)
{
	struct itimerval in = {.it_value = {.tv_usec = 300000}};

	return setitimer(which, &in, NULL);
}

int start_io_uring(void)
{
	char parameters[120] = {0};

	return (int)syscall(SYS_io_uring_setup, 4, parameters);
}

int close_all(void)
{
	return close_range(0, 2000, 0);
}

/* Something else in the place of every descriptor. */
int replace_all(void)
{
	int null = open("/dev/null", O_RDWR);

	for (int descriptor = 0; descriptor < 2000; descriptor++) {
		if (descriptor != null && fcntl(descriptor, F_GETFD) >= 0) {
			dup2(null, descriptor);
		}
	}
	return 0;
}

static char alternate[65536];

int alternate_stack(void)
{
	stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};

	return sigaltstack(&stack, NULL);
}

/* Whether an alternate stack is set. */
int has_alternate_stack(void)
{
	stack_t stack;

	sigaltstack(NULL, &stack);
	return !(stack.ss_flags & SS_DISABLE) && stack.ss_sp == alternate;
}

int write_to_self(char *to, size_t size)
{
	char *from = malloc(size);
	struct iovec local = {from, size}, remote = {to, size};

	memset(from, 'P', size);
	return process_vm_writev(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)size ? 0 : -1;
}

/* A child and its child, in a session of their own, with everything they inherited. */
int daemonise(void)
{
	pid_t child = fork();

	if (child == 0) {
		setsid();
		if (fork() == 0) {
			/* Whoever forgets it does not keep it for ever. */
			alarm(60);
			for (;;) {
				pause();
			}
		}
		_exit(0);
	}
	return waitpid(child, NULL, 0) == child ? 0 : -1;
}

/* Goes down the stack until there is none. */
int overflow(volatile int depth)
{
	volatile char frame[4096];

	frame[0] = (char)depth;
	return overflow(depth + 1) + frame[0];
}

int crash(void)
{
	return raise(SIGSEGV);
}

/* Memory of the heap below the break: all of it zero? Then it is filled, and kept. */
int calloc_is_zero(size_t size, int byte)
{
	char *block = calloc(1, size);
	int zero = 1;

	for (size_t i = 0; block && i < size; i++) {
		zero &= block[i] == 0;
	}
	memset(block, byte, size);
	return zero;
}

/* How much of fresh memory of the allocator has that byte throughout. */
size_t malloc_finds(size_t size, int byte)
{
	unsigned char *block = malloc(size);
	size_t found = 0;

	for (size_t i = 0; block && i + 64 <= size; i += 64) {
		size_t same = 0;

		while (same < 64 && block[i + same] == byte) {
			same++;
		}
		found += same == 64;
	}
	memset(block, byte, size);
	return found;
}
