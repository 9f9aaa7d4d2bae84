/* See forker_children.h. */
#define _GNU_SOURCE
#include <signal.h>

#include "forker_children.h"
#include "../core/raw.h"
#include "../core/forker_state.h"

#define ROOM (sizeof((struct forker *)NULL)->children / sizeof(struct forker_child))

struct forker_child *process_child_find(struct forker *forker, pid_t pid)
{
	for (size_t i = 0; i < ROOM; i++) {
		if (forker->children[i].pid == pid) {
			return &forker->children[i];
		}
	}
	return NULL;
}

bool process_forker_has(struct forker *forker, pid_t pid)
{
	return pid > 0 && process_child_find(forker, pid);
}

static bool is_taken(const struct forker *forker, uint32_t place)
{
	for (size_t i = 0; i < ROOM; i++) {
		const struct forker_child *child = &forker->children[i];
		if (child->pid != 0 && !child->is_template && child->place == place) {
			return true;
		}
	}
	return false;
}

static void find_place(struct forker *forker)
{
	forker->place = 0;
	while (is_taken(forker, forker->place)) {
		forker->place++;
	}
}

void process_child_note(struct forker *forker, struct forker_child *entry, struct forker_child child)
{
	*entry = child;
	forker->alive++;
	find_place(forker);
}

void process_child_forget(struct forker *forker, struct forker_child *entry)
{
	entry->pid = 0;
	forker->alive--;
	find_place(forker);
}

void process_children_kill(const struct forker *forker)
{
	for (size_t i = 0; i < ROOM; i++) {
		if (forker->children[i].pid > 0) {
			RAW2(SYS_kill, forker->children[i].pid, SIGKILL);
		}
	}
}
