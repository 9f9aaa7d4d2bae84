/* A template: boots a script, then forks clones. */
#ifndef REPRISE_TEMPLATE_H
#define REPRISE_TEMPLATE_H

#include <stdbool.h>

#include "wire.h"

struct forker;

long reprise_template_fork(struct forker *forker, enum wire_Isolation isolation, int control, int head);
void reprise_template_loop(void);
_Noreturn void reprise_boot_failed(const char *why, const char *detail);
/* The script has ended before its call. After exit() or an error the message has PHP's last error. */
_Noreturn void reprise_boot_ended(const char *how, bool ran_to_end);

#endif
