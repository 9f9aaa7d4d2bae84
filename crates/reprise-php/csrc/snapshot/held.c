/*
 * What PHP holds when a snapshot is taken, and no descriptor tells of: the boot's session, which is nobody's, is
 * forgotten; semaphores, and streams that the application itself implements and writes to, are refused. On PHP's stack,
 * in the template.
 */
#define _GNU_SOURCE
#include <php.h>
#include <ext/standard/file.h>

#include <stdio.h>
#include <string.h>

#include "../engine/objects.h"
#include "../engine/session.h"
#include "held.h"
#include "template.h"

static void refuse_semaphore(const zend_object *object)
{
	if (zend_string_equals_literal(object->ce->name, "SysvSemaphore")) {
		reprise_boot_failed("a System V semaphore is held at the snapshot",
		                    "call sem_get() after reprise_snapshot(): the kernel counts users and locks by process");
	}
}

/* What is written to them is kept by the application until they are closed, and then by somebody outside. */
static void refuse_user_streams(void)
{
	zend_resource *resource;

	ZEND_HASH_FOREACH_PTR(&EG(regular_list), resource)
	{
		if (!resource || resource->type != php_file_le_stream()) {
			continue;
		}
		const php_stream *stream = resource->ptr;
		if (strcmp(stream->ops->label, "user-space") == 0 && strpbrk(stream->mode, "waxc+")) {
			char text[512];
			snprintf(text, sizeof text, "a stream wrapper of the application is open for writing (%s)",
			         stream->orig_path ? stream->orig_path : "without a name");
			reprise_boot_failed(text, "close it before reprise_snapshot()");
		}
	}
	ZEND_HASH_FOREACH_END();
}

void reprise_settle_what_php_holds(void)
{
	reprise_session_forget();
	reprise_each_object(refuse_semaphore);
	refuse_user_streams();
}
