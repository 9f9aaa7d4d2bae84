/* What is done where PHP or a library forks a child. */
#ifndef REPRISE_FORK_HOOKS_H
#define REPRISE_FORK_HOOKS_H

#include <stdint.h>
#include <sys/types.h>

struct fork_hooks {
	uint32_t (*before)(void); /* its result is for the others */
	void (*in_child)(uint32_t place);
	void (*after)(uint32_t place, pid_t child); /* in the parent; child < 0: there is none */
};

extern const struct fork_hooks *reprise_fork_hooks; /* NULL: nothing is done */

#endif
