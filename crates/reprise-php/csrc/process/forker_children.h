/* What a forker knows of its children. Nothing here calls libc: see forker.h. */
#ifndef REPRISE_FORKER_CHILDREN_H
#define REPRISE_FORKER_CHILDREN_H

#include "forker.h"

struct forker_child *process_child_find(struct forker *forker,
                                        pid_t pid); /* 0: room for one more; NULL: there is none */
void process_child_note(struct forker *forker, struct forker_child *entry, struct forker_child child);
void process_child_forget(struct forker *forker, struct forker_child *entry);
void process_children_kill(const struct forker *forker);

#endif
