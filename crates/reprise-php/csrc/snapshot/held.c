/*
 * What PHP holds when a snapshot is taken, and what no descriptor shows. The session of the boot belongs to no visitor,
 * and is forgotten. Semaphores are refused, and so are streams that the application implements and writes to. This runs
 * on PHP's stack, in the template.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "../engine/objects.h"
#include "../engine/session.h"
#include "../engine/streams.h"
#include "held.h"
#include "../core/boot_failure.h"

static void refuse_semaphore(const char *class_name)
{
	if (strcmp(class_name, "SysvSemaphore") == 0) {
		reprise_boot_failed("a System V semaphore is held at the snapshot",
		                    "call sem_get() after reprise_snapshot(): the kernel counts users and locks by process");
	}
}

/* The application keeps what is written to such a stream until it closes the stream, and then passes it on. */
static void refuse_user_stream(const char *path)
{
	char text[512];

	snprintf(text, sizeof text, "a stream wrapper of the application is open for writing (%s)", path);
	reprise_boot_failed(text, "close it before reprise_snapshot()");
}

void snapshot_settle_what_php_holds(void)
{
	engine_session_forget();
	engine_each_class_of_objects(refuse_semaphore);
	engine_each_written_user_stream(refuse_user_stream);
}
