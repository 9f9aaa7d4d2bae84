/* Loads a filter as a container's runtime does, then executes a program. Standard input has the rules, one a line: what
 * is forbidden fails with the first line's error number; then ALLOW NAME, ERRNO NAME NUMBER, EQUAL NAME INDEX VALUE
 * (allowed if the argument is that), MASKED NAME INDEX MASK VALUE. Calls that libseccomp does not know are left out, as
 * runtimes do. */
#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int add(scmp_filter_ctx filter, const char *line)
{
	char kind[16], name[64];
	unsigned long long numbers[3] = {0, 0, 0};
	int parts = sscanf(line, "%15s %63s %llu %llu %llu", kind, name, &numbers[0], &numbers[1], &numbers[2]);
	int call = parts >= 2 ? seccomp_syscall_resolve_name(name) : __NR_SCMP_ERROR;

	if (parts < 2) {
		return -EINVAL;
	}
	if (call == __NR_SCMP_ERROR) {
		return 0;
	}
	if (strcmp(kind, "ALLOW") == 0) {
		return seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 0);
	}
	if (strcmp(kind, "ERRNO") == 0) {
		return seccomp_rule_add(filter, SCMP_ACT_ERRNO((unsigned)numbers[0]), call, 0);
	}
	if (strcmp(kind, "EQUAL") == 0) {
		return seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 1,
		                        SCMP_CMP((unsigned)numbers[0], SCMP_CMP_EQ, numbers[1]));
	}
	if (strcmp(kind, "MASKED") == 0) {
		return seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 1,
		                        SCMP_CMP((unsigned)numbers[0], SCMP_CMP_MASKED_EQ, numbers[1], numbers[2]));
	}
	return -EINVAL;
}

int main(int argc, char **argv)
{
	char line[256];
	scmp_filter_ctx filter;
	int failed;

	if (argc < 2 || !fgets(line, sizeof line, stdin)) {
		return 64;
	}
	filter = seccomp_init(SCMP_ACT_ERRNO((unsigned)atoi(line)));
	while (fgets(line, sizeof line, stdin)) {
		failed = add(filter, line);
		/* A call that this architecture does not have. */
		if (failed && failed != -EDOM && failed != -EACCES) {
			fprintf(stderr, "%s%s\n", line, strerror(-failed));
			return 1;
		}
	}
	failed = seccomp_load(filter);
	if (failed) {
		fprintf(stderr, "seccomp_load: %s\n", strerror(-failed));
		return 1;
	}
	seccomp_release(filter);
	execv(argv[1], argv + 1);
	perror(argv[1]);
	return 1;
}
