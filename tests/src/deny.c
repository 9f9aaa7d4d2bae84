/*
 * deny CALL ERROR COMMAND…: executes a command in which a system call fails with that error number, or ends the process
 * (ERROR is "kill"). CALL is userfaultfd, landlock_create_ruleset, or the ioctl UFFDIO_API or PAGEMAP_SCAN; or it is
 * writable_code, whose error is always EACCES: memory that is writable and executable.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
	if (strcmp(call, "writable_code") == 0) {
		/* PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN */
		if (prctl(65, 1, 0, 0, 0)) {
			perror("PR_SET_MDWE");
			return 1;
		}
		execvp(arguments[3], arguments + 3);
		perror(arguments[3]);
		return 1;
	}
	/* The low half of the ioctl's request, which is the first half of the argument on both architectures. */
	unsigned request = strcmp(call, "UFFDIO_API") == 0 ? 0xc018aa3f : 0xc0606610;
	unsigned action = strcmp(error, "kill") == 0 ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | (unsigned)atoi(error);
	int is_landlock = strcmp(call, "landlock_create_ruleset") == 0;
	struct sock_filter whole_call[] = {
	    LOAD(nr),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, is_landlock ? SYS_landlock_create_ruleset : SYS_userfaultfd, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, action),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_filter one_request[] = {
	    LOAD(nr),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
	    LOAD(args[1]),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, request, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, action),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	int is_whole = is_landlock || strcmp(call, "userfaultfd") == 0;
	struct sock_fprog program = {
	    .len = is_whole ? sizeof whole_call / sizeof *whole_call : sizeof one_request / sizeof *one_request,
	    .filter = is_whole ? whole_call : one_request,
	};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		perror("seccomp");
		return 1;
	}
	execvp(arguments[3], arguments + 3);
	perror(arguments[3]);
	return 1;
}
