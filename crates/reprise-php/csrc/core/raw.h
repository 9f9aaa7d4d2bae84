/*
 * System calls without libc. Code on the service stack may not use libc. What libc remembers (errno, the program break,
 * locks, buffers) lies in memory that a rewind puts back, so it may be wrong there. These functions return a negative
 * errno, and write only to the memory that they are given.
 */
#ifndef REPRISE_RAW_H
#define REPRISE_RAW_H

#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
static inline long raw6(long number, long a, long b, long c, long d, long e, long f)
{
	long result;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;

	__asm__ volatile("syscall"
	                 : "=a"(result)
	                 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
	                 : "rcx", "r11", "memory");
	return result;
}
#elif defined(__aarch64__)
static inline long raw6(long number, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	return x0;
}
#else
#error "Reprise knows x86-64 and aarch64"
#endif

/* The kernel's page. x86-64 has one size; kernels for aarch64 are built with pages of 4, 16 or 64 KiB. */
#if defined(__x86_64__)
#define PAGE 4096ul
#else
extern uintptr_t raw_page; /* set before anything else */
#define PAGE raw_page
#endif
#define TO_PAGE(size) (((size) + PAGE - 1) & ~(PAGE - 1))

#define RAW0(n) raw6(n, 0, 0, 0, 0, 0, 0)
#define RAW1(n, a) raw6(n, (long)(a), 0, 0, 0, 0, 0)
#define RAW2(n, a, b) raw6(n, (long)(a), (long)(b), 0, 0, 0, 0)
#define RAW3(n, a, b, c) raw6(n, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define RAW4(n, a, b, c, d) raw6(n, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)

/* The kernel's signal set is one word, not libc's sixteen. */
#define RAW_SIGNALS 64
#define RAW_SIGSET_SIZE 8

/* The kernel's struct sigaction. */
struct raw_sigaction {
	void *handler;
	unsigned long flags;
#if defined(__x86_64__)
	void *restorer;
#endif
	uint64_t mask;
};

static inline void *raw_map(void *at, size_t size, int protection, int flags, int descriptor)
{
	return (void *)raw6(SYS_mmap, (long)at, (long)size, protection, flags, descriptor, 0);
}

static inline int raw_failed(const void *address)
{
	return (unsigned long)address > -4096ul;
}

static inline void raw_copy(void *to, const void *from, size_t size)
{
#if defined(__x86_64__)
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
#else
	unsigned char *target = to;
	const unsigned char *source = from;
	while (size--) {
		*target++ = *source++;
	}
#endif
}

/* Never left out, though nothing reads what is there any more. */
static inline void raw_zero(void *at, size_t size)
{
#if defined(__x86_64__)
	__asm__ volatile("rep stosb" : "+D"(at), "+c"(size) : "a"(0) : "memory");
#else
	volatile unsigned char *byte = at;
	while (size--) {
		*byte++ = 0;
	}
#endif
}

/* A short text that is put together without libc. A longer text is cut. */
struct raw_text {
	size_t size;
	char bytes[1024];
};

void raw_add(struct raw_text *text, const char *string);
void raw_add_number(struct raw_text *text, uint64_t number);
void raw_add_hex(struct raw_text *text, uint64_t number);
uint64_t raw_number(const char **text); /* decimal; moves on */
uint64_t raw_hex(const char **text);

/* A child that sends no signal at its end, so that it can be waited for (__WALL) whatever is set for SIGCHLD. */
long raw_fork_unheard(void);

/* Seconds of the monotonic clock, and nanoseconds. */
uint64_t raw_seconds(void);
uint64_t raw_nanoseconds(void);

/* Nanoseconds of processor time of this process. */
uint64_t raw_processor_ns(void);

#endif
