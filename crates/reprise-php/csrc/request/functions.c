/*
 * Functions for PHP code; reprise.stub.php says what they are.
 */
#define _GNU_SOURCE
#include <php.h>
#include <php_output.h>
#include <SAPI.h>
#include <ext/json/php_json.h>
#include <ext/standard/head.h>
#include <zend_smart_str.h>

#include <ctype.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "../engine/request_state.h"
#include "../core/log.h"
#include "../core/options.h"
#include "request.h"
#include "../core/snapshot_state.h"
#include "ipc.h"
#include "../process/worker.h"
#include "../core/head.h"
#include "../core/mode.h"
#include "../core/worker_state.h"

ZEND_FUNCTION(reprise_finish_request)
{
	ZEND_PARSE_PARAMETERS_NONE();
	if (!reprise_worker->responding) {
		RETURN_FALSE;
	}
	php_output_end_all();
	php_header();
	RETURN_BOOL(request_finish());
}

ZEND_FUNCTION(reprise_log)
{
	zend_string *message;
	zend_long level = 6;
	zval *context = NULL;
	smart_str json = {0};

	ZEND_PARSE_PARAMETERS_START(1, 3)
	Z_PARAM_STR(message)
	Z_PARAM_OPTIONAL
	Z_PARAM_LONG(level)
	Z_PARAM_ARRAY(context)
	ZEND_PARSE_PARAMETERS_END();
	if (level < 0 || level > 7) {
		zend_argument_value_error(2, "must be between 0 and 7");
		RETURN_THROWS();
	}
	if (context && zend_hash_num_elements(Z_ARRVAL_P(context)) > 0) {
		if (php_json_encode(&json, context, PHP_JSON_PARTIAL_OUTPUT_ON_ERROR | PHP_JSON_UNESCAPED_SLASHES) != SUCCESS
		    || engine_has_exception()) {
			smart_str_free(&json);
			return;
		}
		smart_str_0(&json);
	}
	reprise_log_line(reprise_log_level((unsigned)level), "%s%s%s", ZSTR_VAL(message), json.s ? " " : "",
	                 json.s ? ZSTR_VAL(json.s) : "");
	smart_str_free(&json);
}

/* A JSON list from the supervisor; NULL is an empty one. */
static void decode_list(zval *list, const char *json)
{
	if (!json
	    || php_json_decode_ex(list, json, strlen(json), PHP_JSON_OBJECT_AS_ARRAY, PHP_JSON_PARSER_DEFAULT_DEPTH)
	           != SUCCESS
	    || Z_TYPE_P(list) != IS_ARRAY) {
		array_init(list);
	}
}

ZEND_FUNCTION(reprise_info)
{
	static const char *const isolations[] = ipc_ISOLATIONS;
	/* Only a template and its clones have one. */
	enum ipc_Isolation isolation =
	    snapshot->isolation == ipc_Isolation_Auto ? ipc_Isolation_WorkerMode : snapshot->isolation;
	uint64_t recycles[ipc_RECYCLES] = {0}, rewinds[3] = {0};
	zval list;

	ZEND_PARSE_PARAMETERS_NONE();
	if (reprise_worker->is_worker) {
		ipc_recycles(&reprise_worker->ipc, &recycles);
		ipc_rewinds(&reprise_worker->ipc, &rewinds);
	}
	array_init(return_value);
	add_assoc_string(return_value, "version", REPRISE_VERSION);
	const char *mode = snapshot->image.is_taken || reprise_worker->is_template ? "snapshot" : "classic";
	add_assoc_string(return_value, "mode", (char *)(reprise_is_worker_mode() ? "worker" : mode));
	const char *way = isolations[isolation];
	add_assoc_string(return_value, "isolation", (char *)(snapshot_rewinds() ? isolations[ipc_Isolation_Rewind] : way));
	add_assoc_string(return_value, "application", (char *)reprise_options.name);
	decode_list(&list, reprise_options.hosts);
	add_assoc_zval(return_value, "hosts", &list);
	add_assoc_long(return_value, "generation", reprise_options.generation);
	add_assoc_long(return_value, "slot", reprise_worker->slot);
	add_assoc_long(return_value, "pid", reprise_worker->pid);
	add_assoc_long(return_value, "requests", (zend_long)reprise_worker->requests);
	add_assoc_long(return_value, "connections", (zend_long)snapshot->connections.count);
	array_init(&list);
	add_assoc_string(&list, "by", (char *)(snapshot_rewinds() ? way : ""));
	add_assoc_long(&list, "fast", (zend_long)rewinds[0]);
	add_assoc_long(&list, "scanned", (zend_long)rewinds[1]);
	add_assoc_long(&list, "pages", (zend_long)rewinds[2]);
	add_assoc_zval(return_value, "rewinds", &list);
	array_init(&list);
	for (uint32_t i = 0; i < ipc_RECYCLES; i++) {
		uint8_t word[16];
		ipc_recycle_word(i, &word);
		add_assoc_long(&list, (const char *)word, (zend_long)recycles[i]);
	}
	add_assoc_zval(return_value, "recycles", &list);
}

ZEND_FUNCTION(fpm_get_status)
{
	size_t room = 32 * 1024, size = 0;
	zend_string *text = NULL;
	int tries = 0;

	ZEND_PARSE_PARAMETERS_NONE();
	/* A forked child and a template have no slab. */
	if (!reprise_worker->is_worker) {
		RETURN_FALSE;
	}
	/* Workers start and end meanwhile, so a text that did not fit gets a quarter more room than it needed. */
	do {
		room = size > room ? size + size / 4 : room;
		text = text ? zend_string_realloc(text, room, false) : zend_string_alloc(room, false);
		size = ipc_report(&reprise_worker->ipc, (uint8_t *)ZSTR_VAL(text), room);
	} while (size > room && ++tries < 4);
	if (size > 0 && size <= room) {
		ZSTR_VAL(text)[size] = 0;
	}
	if (size == 0 || size > room
	    || php_json_decode_ex(return_value, ZSTR_VAL(text), size, PHP_JSON_OBJECT_AS_ARRAY,
	                          PHP_JSON_PARSER_DEFAULT_DEPTH)
	           != SUCCESS
	    || Z_TYPE_P(return_value) != IS_ARRAY) {
		zval_ptr_dtor(return_value);
		ZVAL_FALSE(return_value);
	}
#if PHP_VERSION_ID < 80400
	/* PHP-FPM has it from 8.4 on. */
	if (Z_TYPE_P(return_value) == IS_ARRAY) {
		zend_hash_str_del(Z_ARRVAL_P(return_value), ZEND_STRL("memory-peak"));
	}
#endif
	zend_string_release(text);
}

ZEND_FUNCTION(reprise_warmup_requests)
{
	ZEND_PARSE_PARAMETERS_NONE();
	decode_list(return_value, reprise_options.warmup);
}

static bool add_header(const char *name, uint32_t size, const char *value, uint32_t value_size, void *array)
{
	char title[256];
	bool first = true;

	if (size > 5 && memcmp(name, "HTTP_", 5) == 0) {
		name += 5;
		size -= 5;
	} else if (!(size == 12 && memcmp(name, "CONTENT_TYPE", 12) == 0)
	           && !(size == 14 && memcmp(name, "CONTENT_LENGTH", 14) == 0)) {
		return true;
	}
	if (size >= sizeof title) {
		return true;
	}
	for (uint32_t i = 0; i < size; i++) {
		title[i] = name[i] == '_' ? '-' : (char)(first ? name[i] : tolower((unsigned char)name[i]));
		first = name[i] == '_';
	}
	add_assoc_stringl_ex((zval *)array, title, size, value, value_size);
	return true;
}

ZEND_FUNCTION(getallheaders)
{
	ZEND_PARSE_PARAMETERS_NONE();
	array_init(return_value);
	if (SG(server_context)) {
		reprise_each_variable(add_header, return_value);
	}
}

ZEND_FUNCTION(apache_response_headers)
{
	zend_llist_position position;

	ZEND_PARSE_PARAMETERS_NONE();
	array_init(return_value);
	for (sapi_header_struct *header = zend_llist_get_first_ex(&SG(sapi_headers).headers, &position); header;
	     header = zend_llist_get_next_ex(&SG(sapi_headers).headers, &position)) {
		const char *colon = memchr(header->header, ':', header->header_len);
		if (!colon || colon == header->header) {
			continue;
		}
		size_t name = (size_t)(colon - header->header);
		while (name > 0 && isspace((unsigned char)header->header[name - 1])) {
			name--;
		}
		const char *value = colon + 1;
		while (*value == ' ') {
			value++;
		}
		add_assoc_stringl_ex(return_value, header->header, name, value,
		                     header->header_len - (size_t)(value - header->header));
	}
}
