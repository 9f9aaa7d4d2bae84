/*
 * The head of the request that the worker has claimed, or that a boot was given: the worker's own copy of it.
 * ipc/src/head.rs has its layout. PHP trusts the front, which has written the offsets; debug builds assert them.
 */
#define _GNU_SOURCE
#include <php.h>
#include <SAPI.h>

#include <stdio.h>
#include <string.h>

#include "head.h"
#include "ipc.h"
#include "worker_state.h"

/* Bytes of a path in a message. */
#define MOST_OF_PATH 512

const struct ipc_RequestHead *reprise_head(void)
{
	return (const struct ipc_RequestHead *)reprise_worker->head;
}

const char *reprise_head_text(struct ipc_Span span)
{
	ZEND_ASSERT(span.offset + span.length < sizeof reprise_worker->head);
	return span.offset ? (const char *)reprise_worker->head + span.offset : "";
}

void reprise_forget_variables(void)
{
	((struct ipc_RequestHead *)reprise_worker->head)->variables = 0;
}

void reprise_each_variable(bool (*each)(const char *, uint32_t, const char *, uint32_t, void *), void *context)
{
	const struct ipc_RequestHead *head = reprise_head();
	const unsigned char *at = (const unsigned char *)(head + 1);

	for (uint32_t i = 0; i < head->variables; i++) {
		const struct ipc_Variable *sizes = (const struct ipc_Variable *)at;
		const char *name = (const char *)(sizes + 1);
		const char *value = name + sizes->name + 1;
		size_t bytes = sizeof *sizes + sizes->name + sizes->value + 2;

		if (at + bytes > reprise_worker->head + sizeof reprise_worker->head
		    || !each(name, sizes->name, value, sizes->value, context)) {
			return;
		}
		at += ZEND_MM_ALIGNED_SIZE_EX(bytes, 8);
	}
}

struct sought {
	const char *name;
	size_t size;
	const char *value;
};

static bool compare_name(const char *name, uint32_t name_size, const char *value, uint32_t size, void *context)
{
	struct sought *sought = context;

	if (name_size == sought->size && memcmp(name, sought->name, name_size) == 0) {
		sought->value = value;
		return false;
	}
	return true;
}

/* A variable of the request by its name. PHP-FPM's getenv() finds parameters of FastCGI so. NULL outside of a request.
 */
const char *reprise_variable(const char *name, size_t size)
{
	struct sought sought = {name, size, NULL};

	if (SG(server_context)) {
		reprise_each_variable(compare_name, &sought);
	}
	return sought.value;
}

const char *reprise_about_request(struct reprise_about *about)
{
	const char *id = reprise_variable(ZEND_STRL("REQUEST_ID")), *client = reprise_variable(ZEND_STRL("REMOTE_ADDR"));

	if (!id || !client) {
		return "";
	}
	const char *uri = reprise_head_text(reprise_head()->uri);
	int path = (int)strcspn(uri, "?");

	snprintf(about->text, sizeof about->text, " [%.32s %.*s%s; client %.64s; request %.128s]",
	         reprise_head_text(reprise_head()->method), path < MOST_OF_PATH ? path : MOST_OF_PATH, uri,
	         path > MOST_OF_PATH ? "…" : "", client, id);
	return about->text;
}
