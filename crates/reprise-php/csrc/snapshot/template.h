/* A template: template.c. */
#ifndef REPRISE_TEMPLATE_H
#define REPRISE_TEMPLATE_H

#include <stdbool.h>

#include "wire.h"

struct forker;

long reprise_template_fork(struct forker *forker, enum wire_Isolation isolation, int control, int head);
void reprise_template_loop(void);
_Noreturn void reprise_boot_failed(const char *why, const char *detail);
/* The script ended before it was time; by itself, or by exit() or an error: then with PHP's last message. */
_Noreturn void reprise_boot_ended(const char *how, bool ran_to_end);

#endif
