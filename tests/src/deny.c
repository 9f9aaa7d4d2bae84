/*
 * deny CALL ERROR COMMAND…: executes a command in which a system call fails with that error number, or ends the process
 * (ERROR is "kill"). CALL is userfaultfd, landlock_create_ruleset, the ioctl UFFDIO_API or PAGEMAP_SCAN, or
 * writable_code: an mprotect that makes memory readable, writable and executable.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))

int main(int count, char **arguments)
{
	if (count < 4) {
		fputs("deny CALL ERROR COMMAND…\n", stderr);
		return 64;
	}
	const char *call = arguments[1], *error = arguments[2];
	int is_code = strcmp(call, "writable_code") == 0;
	/* The low half of the argument, which comes first on both architectures: the ioctl's request, or the rights. */
	unsigned value = is_code                           ? PROT_READ | PROT_WRITE | PROT_EXEC
	                 : strcmp(call, "UFFDIO_API") == 0 ? 0xc018aa3f
	                                                   : 0xc0606610;
	unsigned action = strcmp(error, "kill") == 0 ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | (unsigned)atoi(error);
	int is_landlock = strcmp(call, "landlock_create_ruleset") == 0;
	struct sock_filter whole_call[] = {
	    LOAD(nr),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, is_landlock ? SYS_landlock_create_ruleset : SYS_userfaultfd, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, action),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_filter one_value[] = {
	    LOAD(nr),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, is_code ? SYS_mprotect : SYS_ioctl, 0, 3),
	    is_code ? (struct sock_filter)LOAD(args[2]) : (struct sock_filter)LOAD(args[1]),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, action),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	int is_whole = is_landlock || strcmp(call, "userfaultfd") == 0;
	struct sock_fprog program = {
	    .len = is_whole ? sizeof whole_call / sizeof *whole_call : sizeof one_value / sizeof *one_value,
	    .filter = is_whole ? whole_call : one_value,
	};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		perror("seccomp");
		return 1;
	}
	execvp(arguments[3], arguments + 3);
	perror(arguments[3]);
	return 1;
}
