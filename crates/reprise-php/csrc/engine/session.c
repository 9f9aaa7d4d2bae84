/*
 * ext/session between requests. At the snapshot the session of the boot is forgotten, because it belongs to no visitor.
 * The request shutdown of ext/session forgets the handlers that a worker script has set, so they are set again.
 */
#define _GNU_SOURCE
#include <php.h>
#include <SAPI.h>
#include <ext/session/php_session.h>
#include <ext/standard/url_scanner_ex.h>

#include <dlfcn.h>
#include <string.h>
#include <strings.h>

#include "../core/log.h"
#include "session.h"
#include "../core/boot_failure.h"

/* A value that may be a random id: long enough, and with the characters of a session id. */
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

/* The session's cookie, or another cookie of the boot with a random value. (The session may have had another name.)
 * Every visitor would get the same value. */
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

/* Otherwise every visitor would get its id in cookies, links and SID. */
void engine_session_forget(void)
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

/* The functions of session_set_save_handler(). They are an array of zvals in PHP 8.2, and a structure of zvals in later
 * versions. */
enum { HANDLERS = 9 };

static zval *handler_of(size_t number)
{
	_Static_assert(sizeof PS(mod_user_names) == HANDLERS * sizeof(zval), "session's handlers are zvals in a row");
	return (zval *)&PS(mod_user_names) + number;
}

static zval handlers[HANDLERS];

void engine_session_note_handlers(void)
{
	for (size_t i = 0; i < HANDLERS; i++) {
		ZVAL_COPY(&handlers[i], handler_of(i));
	}
}

/* Session's request shutdown forgets them. */
void engine_session_restore_handlers(void)
{
	for (size_t i = 0; i < HANDLERS; i++) {
		if (Z_ISUNDEF_P(handler_of(i)) && !Z_ISUNDEF(handlers[i])) {
			ZVAL_COPY(handler_of(i), &handlers[i]);
		}
	}
}

void engine_session_takes_handlers(bool takes)
{
	PS(set_handler) = takes;
}
