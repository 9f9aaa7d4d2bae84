/*
 * ext/session between requests: the boot's session, which is nobody's, is forgotten at the snapshot; the handlers that
 * a worker script has set come back after session's own request shutdown has forgotten them.
 */
#define _GNU_SOURCE
#include <php.h>
#include <SAPI.h>
#include <ext/session/php_session.h>
#include <ext/standard/url_scanner_ex.h>

#include <dlfcn.h>
#include <string.h>
#include <strings.h>

#include "../log.h"
#include "../snapshot/template.h"
#include "session.h"

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
void reprise_session_forget(void)
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

/* ---- handlers of worker scripts -----------------------------------------------------------------------------------
 */

/* open, close and so on, as session_set_save_handler has set them: an array of zvals until PHP 8.2, then a structure of
 * them. */
static zval *handler_of(size_t number)
{
	_Static_assert(sizeof PS(mod_user_names) == PS_NUM_APIS * sizeof(zval), "session's handlers are zvals in a row");
	return (zval *)&PS(mod_user_names) + number;
}

static zval handlers[PS_NUM_APIS];

void reprise_session_note_handlers(void)
{
	for (size_t i = 0; i < PS_NUM_APIS; i++) {
		ZVAL_COPY(&handlers[i], handler_of(i));
	}
}

/* Session's request shutdown forgets them. */
void reprise_session_restore_handlers(void)
{
	for (size_t i = 0; i < PS_NUM_APIS; i++) {
		if (Z_ISUNDEF_P(handler_of(i)) && !Z_ISUNDEF(handlers[i])) {
			ZVAL_COPY(handler_of(i), &handlers[i]);
		}
	}
}

void reprise_session_takes_handlers(bool takes)
{
	PS(set_handler) = takes;
}
