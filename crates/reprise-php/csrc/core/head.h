/* The head of the request. */
#ifndef REPRISE_HEAD_H
#define REPRISE_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc.h"

const struct ipc_RequestHead *reprise_head(void);
const char *reprise_head_text(struct ipc_Span span);
/* The request is over: nothing that follows belongs to it. */
void reprise_forget_variables(void);
/* A variable of the request by its name. NULL outside of a request. */
const char *reprise_variable(const char *name, size_t size);
/* What messages add of the request that runs: " [GET /path; client ADDRESS; request ID]", without the query, which may
 * have secrets. Empty in a boot, and where there is no request. */
struct reprise_about {
	char text[1024];
};
const char *reprise_about_request(struct reprise_about *about);
/* Calls `each` with name and value of every variable until it returns false. */
void reprise_each_variable(bool (*each)(const char *, uint32_t, const char *, uint32_t, void *), void *context);

#endif
