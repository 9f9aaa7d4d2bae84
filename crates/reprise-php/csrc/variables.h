/* The head of the request, and $_SERVER and getenv() from it. */
#ifndef REPRISE_VARIABLES_H
#define REPRISE_VARIABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

const struct wire_RequestHead *reprise_head(void);
const char *reprise_head_text(struct wire_Span span);
void reprise_register_variables(void *array);
void reprise_variables_start(void);
const char *reprise_variable(const char *name, size_t size);
/* Calls `each` with name and value of every variable until it returns false. */
void reprise_each_variable(bool (*each)(const char *, uint32_t, const char *, uint32_t, void *), void *context);

#endif
