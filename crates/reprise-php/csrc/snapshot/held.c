/*
 * What PHP holds when a snapshot is taken, and no descriptor tells of: the boot's session, which is nobody's, is
 * forgotten; semaphores, and streams that the application itself implements and writes to, are refused. On PHP's stack,
 * in the template.
 */
#define _GNU_SOURCE
#include <php.h>
#include <SAPI.h>
#include <ext/session/php_session.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "snapshot.h"

static const char *session_name;

static int is_session_cookie(void *element)
{
	const sapi_header_struct *header = element;
	static const char field[] = "Set-Cookie: ";
	size_t size = strlen(session_name);

	return header->header_len > sizeof field + size && strncasecmp(header->header, field, sizeof field - 1) == 0
	       && strncmp(header->header + sizeof field - 1, session_name, size) == 0
	       && header->header[sizeof field - 1 + size] == '=';
}

/* Its id would be every visitor's. */
static void forget_session(void)
{
	php_ps_globals *session = dlsym(RTLD_DEFAULT, "ps_globals");

	if (!session || (!session->id && session->session_status != php_session_active)) {
		return;
	}
	if (session->session_status == php_session_active) {
		reprise_boot_failed("a session is open at the snapshot",
		                    "call session_write_close() before reprise_snapshot(): all visitors would share it");
	}
	zend_string_release(session->id);
	session->id = NULL;
	session->define_sid = true;
	session->send_cookie = true;
	session_name = session->session_name;
	zend_llist_apply_with_del(&SG(sapi_headers).headers, is_session_cookie);
	zend_hash_str_del(&EG(symbol_table), ZEND_STRL("_SESSION"));
	if (!Z_ISUNDEF(session->http_session_vars)) {
		zval_ptr_dtor(&session->http_session_vars);
		ZVAL_UNDEF(&session->http_session_vars);
	}
}

static void refuse_semaphores(void)
{
	zend_objects_store *store = &EG(objects_store);

	for (uint32_t i = 1; i < store->top; i++) {
		zend_object *object = store->object_buckets[i];
		if (IS_OBJ_VALID(object) && zend_string_equals_literal(object->ce->name, "SysvSemaphore")) {
			reprise_boot_failed(
			    "a System V semaphore is held at the snapshot",
			    "call sem_get() behind reprise_snapshot(): the kernel counts users and locks by process");
		}
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
			snprintf(text, sizeof text, "a stream of the application's own is open for writing (%s)",
			         stream->orig_path ? stream->orig_path : "without a name");
			reprise_boot_failed(text, "close it before reprise_snapshot()");
		}
	}
	ZEND_HASH_FOREACH_END();
}

void reprise_settle_what_php_holds(void)
{
	forget_session();
	refuse_semaphores();
	refuse_user_streams();
}
