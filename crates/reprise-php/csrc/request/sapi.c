/*
 * The SAPI: what PHP calls to write, read and log. Every callback may run in a child that PHP code has forked; there
 * `responding` is false and output goes nowhere.
 *
 * Output is published by ipc when half the ring is full, by flush() and at the end. An abort (zend_bailout inside
 * php_handle_aborted_connection) is raised here, in C, after the ipc call has returned.
 *
 * The name is fpm-fcgi: it is on opcache's list of SAPIs, and what frameworks and Phar::webPhar expect.
 */
#define _GNU_SOURCE
#include <php.h>
#include <php_ini.h>
#include <php_main.h>
#include <php_variables.h>
#include <SAPI.h>
#include <zend_extensions.h>
#include <zend_signal.h>
#include <ext/standard/info.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cgi.h"
#include "../data/data.h"
#include "../engine/error_page.h"
#include "../engine/exits.h"
#include "../engine/filter.h"
#include "../engine/output.h"
#include "../engine/probes.h"
#include "../engine/request_state.h"
#include "../engine/wrap.h"
#include "../interpose/file_cache.h"
#include "../core/log.h"
#include "names.h"
#include "opcache.h"
#include "../core/options.h"
#include "../process/overtime.h"
#include "request.h"
#include "sapi.h"
#include "settings.h"
#include "../core/snapshot_state.h"
#include "../interpose/uploads.h"
#include "variables.h"
#include "ipc.h"
#include "../core/head.h"
#include "../core/mode.h"
#include "../core/worker_state.h"
#include "../core/data_state.h"

static void log_message(const char *message, int syslog_type)
{
	struct reprise_about about;

	reprise_log_about(reprise_about_request(&about), reprise_log_level((unsigned)syslog_type), "%s", message);
}

static void (*take_boot_output)(const char *bytes, size_t size);

static size_t ub_write(const char *bytes, size_t size)
{
	if (reprise_worker->is_template) {
		take_boot_output(bytes, size);
		return size;
	}
	if (!reprise_worker->responding) {
		return size;
	}
	if (ipc_write(&reprise_worker->ipc, (const uint8_t *)bytes, size) < 0) {
		php_handle_aborted_connection();
	}
	return size;
}

static void flush(void *context)
{
	if (!reprise_worker->responding) {
		return;
	}
	if (!SG(headers_sent)) {
#if PHP_VERSION_ID >= 80400
		/* As under PHP-FPM since 8.4: flush() sends the headers, if there is no output yet. */
		sapi_send_headers();
#else
		/* As under PHP-FPM before 8.4: headers go out with the first byte of output, and not with flush(). */
		return;
#endif
	}
	/* What this flush sends may end the response. As under PHP-FPM, the next one raises that. */
	bool is_unread = ipc_is_unread(&reprise_worker->ipc);
	ipc_flush(&reprise_worker->ipc);
	if (is_unread) {
		php_handle_aborted_connection();
	}
}

/* The code and reason of "HTTP/1.1 404 Gone fishing" or "Status: 404 …"; false if it is neither. */
static bool parse_status(const char *text, int *code, const char **reason)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (end == text || value < 100 || value > 999) {
		return false;
	}
	*code = (int)value;
	*reason = end + strspn(end, " ");
	return true;
}

static void find_status(sapi_headers_struct *headers, int *code, const char **reason)
{
	zend_llist_position position;
	const char *line = headers->http_status_line;

	*code = headers->http_response_code;
	*reason = "";
	if (line && strncasecmp(line, "HTTP/", 5) == 0 && (line = strchr(line, ' '))
	    && parse_status(line + 1, code, reason)) {
		return;
	}
	for (sapi_header_struct *header = zend_llist_get_first_ex(&headers->headers, &position); header;
	     header = zend_llist_get_next_ex(&headers->headers, &position)) {
		if (header->header_len > 7 && strncasecmp(header->header, "Status:", 7) == 0) {
			parse_status(header->header + 7 + strspn(header->header + 7, " "), code, reason);
			return;
		}
	}
}

/* Sends one header line "Name: value". A line without a colon is dropped, as web servers do. So is the Content-Type of
 * a 304, which has no content, as under PHP-FPM (sapi_cgi_send_headers). */
static bool send_line(const sapi_header_struct *header, int code)
{
	const char *colon = memchr(header->header, ':', header->header_len);

	if (!colon || colon == header->header || colon - header->header > UINT16_MAX) {
		return true;
	}
	size_t name = (size_t)(colon - header->header);
	if (name == 6 && strncasecmp(header->header, "Status", 6) == 0) {
		return true;
	}
	if (code == 304 && name == 12 && strncasecmp(header->header, "Content-Type", 12) == 0) {
		return true;
	}
	const char *value = colon + 1 + strspn(colon + 1, " \t");
	return ipc_response_header(&reprise_worker->ipc, (const uint8_t *)header->header, (uint16_t)name,
	                           (const uint8_t *)value, header->header_len - (size_t)(value - header->header))
	       == 0;
}

static size_t head_size(sapi_headers_struct *headers)
{
	zend_llist_position position;
	size_t size = 16 + (headers->http_status_line ? strlen(headers->http_status_line) : 0);

	for (sapi_header_struct *header = zend_llist_get_first_ex(&headers->headers, &position); header;
	     header = zend_llist_get_next_ex(&headers->headers, &position)) {
		size += header->header_len + 8;
	}
	return size;
}

static int send_headers(sapi_headers_struct *headers)
{
	static const char too_large[] = "Response headers too large";
	zend_llist_position position;
	const char *reason;
	int code;

	if (!reprise_worker->responding || reprise_worker->head_sent) {
		return SAPI_HEADER_SENT_SUCCESSFULLY;
	}
	struct ipc_worker_state *ipc = &reprise_worker->ipc;
	reprise_worker->head_sent = true;
	if (head_size(headers) > ipc_MAX_SIZE) {
		reprise_log_line("error", "%s: more than %d bytes; the response is 500 without them", too_large,
		                 (int)ipc_MAX_SIZE);
		ipc_response_status(ipc, 500, (const uint8_t *)too_large, strlen(too_large));
		return ipc_response_end(ipc) == 0 ? SAPI_HEADER_SENT_SUCCESSFULLY : SAPI_HEADER_SEND_FAILED;
	}
	find_status(headers, &code, &reason);
	if (code < 200) {
		/* This is the response itself. After an informational status the client would take its body for another head.
		 */
		code = 200;
		reason = "";
	}
	bool sent = ipc_response_status(ipc, (uint16_t)code, (const uint8_t *)reason, strlen(reason)) == 0;
	for (sapi_header_struct *header = zend_llist_get_first_ex(&headers->headers, &position); sent && header;
	     header = zend_llist_get_next_ex(&headers->headers, &position)) {
		sent = send_line(header, code);
	}
	/* An abort may not be raised here. The next write raises it. */
	return sent && ipc_response_end(ipc) == 0 ? SAPI_HEADER_SENT_SUCCESSFULLY : SAPI_HEADER_SEND_FAILED;
}

/*
 * Fills the buffer, because PHP takes a short read for the end of the body.
 *
 * A body that broke off must not look complete. When PHP reads the body before the script, a short read lets PHP remove
 * the files that it has written, and the script does not run (classic.c). When the script reads the body, the request
 * ends here.
 *
 * When a request has ended its output, PHP still reads the rest of the body. The response is completed before that.
 */
static size_t read_post(char *buffer, size_t size)
{
	size_t got = 0;

	if (reprise_worker->responding && reprise_worker->stage == REPRISE_ENDING && !engine_output_is_active()) {
		data_release();
		request_finish_response();
	}
	while (got < size && reprise_worker->responding && !reprise_worker->body_broken) {
		int64_t count = ipc_read(&reprise_worker->ipc, (uint8_t *)buffer + got, size - got);
		if (count < 0) {
			reprise_worker->body_broken = true;
			engine_connection_is_aborted();
			php_output_set_status(PHP_OUTPUT_DISABLED);
			if (reprise_worker->stage == REPRISE_RUNNING) {
				zend_bailout();
			}
		}
		if (count <= 0) {
			break;
		}
		got += (size_t)count;
	}
	return got;
}

static char *read_cookies(void)
{
	return SG(request_info).cookie_data;
}

static char *environment(const char *name, size_t size)
{
	const char *value = reprise_variable(name, size);

	return value ? (char *)value : getenv(name);
}

static PHP_MINFO_FUNCTION(reprise)
{
	char pid[16];

	php_info_print_table_start();
	php_info_print_table_row(2, "Reprise", REPRISE_VERSION);
	php_info_print_table_row(2, "Application", reprise_options.name);
	php_info_print_table_row(2, "Mode",
	                         reprise_is_worker_mode()   ? "worker"
	                         : snapshot->image.is_taken ? "snapshot"
	                                                    : "classic");
	snprintf(pid, sizeof pid, "%d", (int)getpid());
	php_info_print_table_row(2, "Worker", pid);
	php_info_print_table_end();
	DISPLAY_INI_ENTRIES();
}

/* Before PHP compiles any code, the files of opcache.preload included. */
static PHP_MINIT_FUNCTION(reprise)
{
	engine_exits_watch();
	engine_filter_watch();
	request_register_settings(module_number);
	return SUCCESS;
}

static zend_module_entry reprise_module = {
    STANDARD_MODULE_HEADER,
    "reprise",
    NULL,
    PHP_MINIT(reprise),
    NULL,
    NULL,
    NULL,
    PHP_MINFO(reprise),
    REPRISE_VERSION,
    STANDARD_MODULE_PROPERTIES,
};

static int startup(sapi_module_struct *module)
{
	return php_module_startup(module, &reprise_module);
}

/* opcache restarts when no process holds its lock. Templates hold it until they end, so the restart would not come, and
 * opcache caches nothing until then. A caller of opcache_reset() wants its code to be loaded again. So a new generation
 * with an empty opcache takes the place of this one. */
static zif_handler opcache_reset;

static void renewing_opcache_reset(INTERNAL_FUNCTION_PARAMETERS)
{
	ZEND_PARSE_PARAMETERS_NONE();
	if (!reprise_worker->is_worker) {
		/* A boot loads its code just now. */
		RETURN_FALSE;
	}
	ipc_renew(&reprise_worker->ipc, ipc_RENEW_ASKED);
	RETURN_TRUE;
}

/* Defaults of PHP-FPM that differ from those of libphp. php.ini and options win over them. */
static void ini_defaults(HashTable *configuration)
{
	zval value;

	ZVAL_NEW_STR(&value, zend_string_init("1", 1, 1));
	zend_hash_str_update(configuration, "display_errors", sizeof "display_errors" - 1, &value);
	/* opcache kills a process that holds its lock longer. The front has limits of its own. */
	ZVAL_NEW_STR(&value, zend_string_init("2147483647", 10, 1));
	zend_hash_str_update(configuration, ZEND_STRL("opcache.force_restart_timeout"), &value);
	if (reprise_options.watches) {
		/* Otherwise opcache would not cache a file that was just written, and the watcher would not see it. */
		ZVAL_NEW_STR(&value, zend_string_init("0", 1, 1));
		zend_hash_str_update(configuration, ZEND_STRL("opcache.file_update_protection"), &value);
	}
}

static sapi_module_struct module = {
    .name = "fpm-fcgi",
    .pretty_name = "Reprise",
    .startup = startup,
    .shutdown = php_module_shutdown_wrapper,
    .activate = request_activate_settings,
    .deactivate = request_note_memory,
    .ub_write = ub_write,
    .flush = flush,
    .getenv = environment,
    .sapi_error = php_error,
    .send_headers = send_headers,
    .read_post = read_post,
    .read_cookies = read_cookies,
    .register_server_variables = (void (*)(zval *))request_register_variables,
    .log_message = log_message,
    .ini_defaults = ini_defaults,
};

void request_sapi_offer(const zend_function_entry *functions, void (*boot_output)(const char *bytes, size_t size))
{
	reprise_module.functions = functions;
	take_boot_output = boot_output;
}

bool request_sapi_load(void)
{
	if (reprise_options.scan_dir) {
		setenv("PHP_INI_SCAN_DIR", reprise_options.scan_dir, 1);
	}
	zend_signal_startup();
	sapi_startup(&module);
	module.php_ini_path_override = (char *)reprise_options.php_ini;
	module.php_ini_ignore_cwd = 1;
	module.ini_entries = reprise_options.ini;
	module.executable_location = NULL;
	bool is_started = module.startup(&module) == SUCCESS;
	interpose_file_cache_started();
	return is_started && engine_is_as_compiled();
}

bool request_sapi_start(void)
{
	if (!request_sapi_load()) {
		return false;
	}
	/* PHP has read it. Scripts and programs that they start must not see it. */
	unsetenv("PHP_INI_SCAN_DIR");
	if (!request_lock_settings()) {
		return false;
	}
	request_report_unknown_settings();
	request_variables_start();
	process_overtime_start();
	request_opcache_start();
	interpose_uploads_start();
	reprise_data->finish_response = request_finish;
	engine_error_page_start();
	engine_wrap_function("opcache_reset", renewing_opcache_reset, &opcache_reset);
	if (!zend_get_extension("Zend OPcache")) {
		reprise_log_line("warning", "opcache is not loaded: every request compiles its scripts anew");
	} else if (!zend_ini_long("opcache.enable", sizeof "opcache.enable" - 1, 0)) {
		reprise_log_line("warning", "opcache.enable is off: every request compiles its scripts anew");
	}
	return true;
}
