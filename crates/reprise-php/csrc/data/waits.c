/* See waits.h. The worker runs while its memory is read: addresses are only passed to the kernel, and lengths have
 * limits. */
#define _GNU_SOURCE
#include <sys/uio.h>

#include "../core/raw.h"
#include "waits.h"
#include "../core/data_state.h"

/* Bytes of a key that are shown. */
#define SHOWN 200

static bool fetch(pid_t pid, const void *from, void *to, size_t size)
{
	struct iovec here = {to, size}, there = {(void *)(uintptr_t)from, size};

	return raw6(SYS_process_vm_readv, pid, (long)&here, 1, (long)&there, 1, 0) == (long)size;
}

void data_write_wait(int file, pid_t pid)
{
	static const char digits[] = "0123456789abcdef";
	struct data_wait wait;
	unsigned char key[SHOWN];
	struct raw_text text = {0};

	if (!fetch(pid, &reprise_data->wait, &wait, sizeof wait) || !wait.key || wait.size == 0) {
		return;
	}
	size_t size = wait.size < SHOWN ? wait.size : SHOWN;
	if (!fetch(pid, wait.key, key, size)) {
		return;
	}
	raw_add(&text, "waits for \"");
	for (size_t i = 0; i < size; i++) {
		char one[5] = {(char)key[i]};
		if (key[i] <= ' ' || key[i] > '~') {
			raw_copy(one, "\\x", 2);
			one[2] = digits[key[i] >> 4];
			one[3] = digits[key[i] & 15];
		}
		raw_add(&text, one);
	}
	raw_add(&text, wait.size > size ? "…\"" : "\"");
	if (wait.owner == 0) {
		raw_add(&text, " of the data cache, which another node computes\n");
	} else {
		raw_add(&text, " of the data cache, which process ");
		raw_add_number(&text, wait.owner);
		raw_add(&text, " computes\n");
	}
	RAW3(SYS_write, file, text.bytes, text.size);
}
