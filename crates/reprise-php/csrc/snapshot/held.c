/*
 * What PHP holds when a snapshot is taken, and no descriptor tells of: the boot's session, which is nobody's, is
 * forgotten; semaphores, and streams that the application itself implements and writes to, are refused. On PHP's stack,
 * in the template.
 */
#define _GNU_SOURCE
#include <php.h>
#include <SAPI.h>
#include <ext/session/php_session.h>
#include <ext/standard/url_scanner_ex.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "snapshot.h"

/* Long enough to be drawn, and made of what session ids are made of. */
static bool looks_drawn(const char *value)
{
	size_t size = strspn(value, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ,-");

	return size >= 22 && (!value[size] || value[size] == ';');
}

static const char *session_name;

static bool is_sessions(const char *cookie)
{
	size_t size = session_name ? strlen(session_name) : 0;

	cookie += strspn(cookie, " ");
	return size > 0 && strncmp(cookie, session_name, size) == 0 && cookie[size] == '=';
}

/* The session's cookie, or one that the boot has set with a drawn value (the session may have had another name): every
 * visitor would get the same. */
static int is_drawn_cookie(void *element)
{
	const sapi_header_struct *header = element;
	static const char field[] = "Set-Cookie:";
	const char *value = strchr(header->header, '=');

	if (strncasecmp(header->header, field, sizeof field - 1) != 0 || !value
	    || !(is_sessions(header->header + sizeof field - 1) || looks_drawn(value + 1))) {
		return false;
	}
	reprise_log_line("notice", "a cookie of the boot looks like an id, and is not sent: %.*s",
	                 (int)(value - header->header), header->header);
	return true;
}

/* Its id would be every visitor's: in cookies, links and SID. */
static void forget_session(void)
{
	php_ps_globals *session = dlsym(RTLD_DEFAULT, "ps_globals");

	if (!session) {
		return;
	}
	if (session->session_status == php_session_active) {
		reprise_boot_failed("a session is open at the snapshot",
		                    "call session_write_close() before reprise_snapshot(): all visitors would share it");
	}
	session_name = session->session_name;
	zend_llist_apply_with_del(&SG(sapi_headers).headers, is_drawn_cookie);
	if (session->session_name) {
		zend_string *name = zend_string_init(session->session_name, strlen(session->session_name), 0);
		php_url_scanner_reset_session_var(name, 1);
		zend_string_release(name);
	}
	zend_hash_str_del(EG(zend_constants), ZEND_STRL("SID"));
	if (session->id) {
		zend_string_release(session->id);
		session->id = NULL;
	}
	session->define_sid = true;
	session->send_cookie = true;
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
