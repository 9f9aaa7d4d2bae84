/*
 * What PHP code tells the cache of responses: what it has changed, and that a client's copy is still right.
 *
 * A purge is a text for the front (cache::purge::Purge::parse): a line `hard` or `soft`, then a line for each thing,
 * whose first letter says what it is. The call returns when the front has purged, so the response to the request that
 * purges leaves afterwards. A text that is longer than a slot's box goes in parts.
 */
#define _GNU_SOURCE
#include <php.h>
#include <php_output.h>
#include <SAPI.h>
#include <ext/date/php_date.h>
#include <zend_exceptions.h>
#include <zend_smart_str.h>

#include <ctype.h>
#include <string.h>

#include "../data/cluster.h"
#include "../engine/request_state.h"
#include "ipc.h"
#include "../core/head.h"
#include "../core/mode.h"
#include "../core/worker_state.h"

struct purge {
	smart_str text;
	const char *head;
	bool is_done;
};

static void purge_begin(struct purge *purge)
{
	smart_str_appends(&purge->text, purge->head);
}

static void purge_send(struct purge *purge)
{
	if (purge->text.s && ZSTR_LEN(purge->text.s) > strlen(purge->head)) {
		purge->is_done &=
		    ipc_purge(&reprise_worker->ipc, (const uint8_t *)ZSTR_VAL(purge->text.s), ZSTR_LEN(purge->text.s));
		smart_str_0(&purge->text);
		data_cluster_purge(purge->text.s);
		smart_str_free(&purge->text);
		purge_begin(purge);
	}
}

static void purge_add(struct purge *purge, char letter, const char *name, size_t size)
{
	if (ZSTR_LEN(purge->text.s) + size + 2 > ipc_PURGE_SIZE) {
		purge_send(purge);
	}
	smart_str_appendc(&purge->text, '\n');
	smart_str_appendc(&purge->text, letter);
	smart_str_appendl(&purge->text, name, size);
}

/* A name may be anything but empty, longer than PHP's own headers may be, or no line. */
static bool is_name(const zval *value)
{
	if (Z_TYPE_P(value) != IS_STRING || Z_STRLEN_P(value) == 0 || Z_STRLEN_P(value) > 1024) {
		return false;
	}
	for (size_t i = 0; i < Z_STRLEN_P(value); i++) {
		if (iscntrl((unsigned char)Z_STRVAL_P(value)[i])) {
			return false;
		}
	}
	return true;
}

static bool are_names(HashTable *list, uint32_t number)
{
	zval *value;

	ZEND_HASH_FOREACH_VAL(list, value)
	{
		ZVAL_DEREF(value);
		if (!is_name(value)) {
			zend_argument_value_error(number, "must have strings of 1 to 1,024 bytes without control characters");
			return false;
		}
	}
	ZEND_HASH_FOREACH_END();
	return true;
}

static void purge_list(struct purge *purge, char letter, HashTable *list)
{
	zval *value;

	ZEND_HASH_FOREACH_VAL(list, value)
	{
		ZVAL_DEREF(value);
		purge_add(purge, letter, Z_STRVAL_P(value), Z_STRLEN_P(value));
	}
	ZEND_HASH_FOREACH_END();
}

ZEND_FUNCTION(reprise_cache_purge)
{
	HashTable *tags = NULL, *urls = NULL, *prefixes = NULL;
	bool all = false, soft = false;

	ZEND_PARSE_PARAMETERS_START(0, 5)
	Z_PARAM_OPTIONAL
	Z_PARAM_ARRAY_HT(tags)
	Z_PARAM_ARRAY_HT(urls)
	Z_PARAM_ARRAY_HT(prefixes)
	Z_PARAM_BOOL(all)
	Z_PARAM_BOOL(soft)
	ZEND_PARSE_PARAMETERS_END();
	if ((tags && !are_names(tags, 1)) || (urls && !are_names(urls, 2)) || (prefixes && !are_names(prefixes, 3))) {
		RETURN_THROWS();
	}
	/* A template and a forked child have no slab. */
	if (!reprise_worker->is_worker) {
		RETURN_FALSE;
	}
	struct purge purge = {{0}, soft ? "soft" : "hard", true};
	purge_begin(&purge);
	if (tags) {
		purge_list(&purge, 't', tags);
	}
	if (urls) {
		purge_list(&purge, 'u', urls);
	}
	if (prefixes) {
		purge_list(&purge, 'p', prefixes);
	}
	if (all) {
		purge_add(&purge, 'a', "", 0);
	}
	purge_send(&purge);
	smart_str_free(&purge.text);
	RETURN_BOOL(purge.is_done);
}

/* An entity tag without its mark of weakness. */
static void strip_weakness(const char **tag, size_t *size)
{
	if (*size > 2 && (*tag)[0] == 'W' && (*tag)[1] == '/') {
		*tag += 2;
		*size -= 2;
	}
}

/* Whether a list of entity tags has this one, or is `*` (RFC 9110 §13.1.2: weak comparison). */
static bool has_tag(const char *list, const char *tag, size_t size)
{
	strip_weakness(&tag, &size);
	while (*list) {
		while (*list == ' ' || *list == '\t' || *list == ',') {
			list++;
		}
		if (*list == '*') {
			return true;
		}
		if (list[0] == 'W' && list[1] == '/') {
			list += 2;
		}
		if (*list != '"') {
			return false;
		}
		const char *end = strchr(list + 1, '"');
		if (!end) {
			return false;
		}
		if ((size_t)(end + 1 - list) == size && memcmp(list, tag, size) == 0) {
			return true;
		}
		list = end + 1;
	}
	return false;
}

static void set_header(const char *name, const char *value)
{
	smart_str line = {0};

	smart_str_appends(&line, name);
	smart_str_appends(&line, ": ");
	smart_str_appends(&line, value);
	smart_str_0(&line);
	sapi_header_line op = {ZSTR_VAL(line.s), ZSTR_LEN(line.s), 0};
	sapi_header_op(SAPI_HEADER_REPLACE, &op);
	smart_str_free(&line);
}

static const char *variable(const char *name)
{
	return SG(server_context) ? reprise_variable(name, strlen(name)) : NULL;
}

static bool is_read(void)
{
	const char *method = SG(request_info).request_method;

	return method && (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0);
}

/* Ends the script as exit() does. In a worker script the loop goes on. */
static void leave(void)
{
	php_output_discard_all();
	if (reprise_is_worker_mode()) {
		zend_throw_graceful_exit();
	} else {
		zend_throw_unwind_exit();
	}
}

/* With quotes, unless it has them. NULL: it cannot stand in a header. */
static zend_string *quoted(const zend_string *tag)
{
	const char *text = ZSTR_VAL(tag);
	size_t size = ZSTR_LEN(tag);
	smart_str whole = {0};

	strip_weakness(&text, &size);
	bool has_quotes = size > 1 && text[0] == '"' && text[size - 1] == '"';
	for (size_t i = has_quotes; i < size - has_quotes; i++) {
		if (text[i] == '"' || (unsigned char)text[i] <= ' ' || text[i] == 127) {
			return NULL;
		}
	}
	if (has_quotes) {
		smart_str_append(&whole, (zend_string *)tag);
	} else {
		smart_str_appendc(&whole, '"');
		smart_str_append(&whole, (zend_string *)tag);
		smart_str_appendc(&whole, '"');
	}
	smart_str_0(&whole);
	return whole.s;
}

ZEND_FUNCTION(reprise_not_modified)
{
	zend_string *etag = NULL, *tag = NULL;
	zend_long modified = 0;
	bool has_no_time = true;

	ZEND_PARSE_PARAMETERS_START(0, 2)
	Z_PARAM_OPTIONAL
	Z_PARAM_STR_OR_NULL(etag)
	Z_PARAM_LONG_OR_NULL(modified, has_no_time)
	ZEND_PARSE_PARAMETERS_END();
	if (etag && !(tag = quoted(etag))) {
		zend_argument_value_error(1, "must not contain quotes, spaces or control characters");
		RETURN_THROWS();
	}
	const char *cookie = variable("HTTP_COOKIE"), *tags = variable("HTTP_IF_NONE_MATCH");
	const char *since = variable("HTTP_IF_MODIFIED_SINCE");
	/* Two visitors may see two pages that were changed at the same time. */
	bool has_time = !has_no_time && (tag || !cookie);
	bool is_current = false;
	if (tag) {
		set_header("ETag", ZSTR_VAL(tag));
		is_current = tags && has_tag(tags, ZSTR_VAL(tag), ZSTR_LEN(tag));
	}
	if (has_time) {
		zend_string *date = php_format_date(ZEND_STRL("D, d M Y H:i:s \\G\\M\\T"), (time_t)modified, false);
		set_header("Last-Modified", ZSTR_VAL(date));
		zend_string_release(date);
		/* If-None-Match counts alone (RFC 9110 §13.1.3). */
		if (!tags && since) {
			zend_long than = php_parse_date(since, NULL);
			is_current = than > 0 && modified <= than;
		}
	}
	if (tag) {
		zend_string_release(tag);
	}
	if (is_current && is_read() && !SG(headers_sent)) {
		sapi_header_op(SAPI_HEADER_SET_STATUS, (void *)(zend_long)304);
		leave();
	}
}
