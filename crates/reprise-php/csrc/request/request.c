/*
 * A request, in every mode. The worker claims it, describes it to PHP, runs its script and completes its response.
 */
#define _GNU_SOURCE
#include <php.h>
#include <php_main.h>
#include <php_variables.h>
#include <SAPI.h>
#include <ext/standard/head.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../core/log.h"
#include "../core/options.h"
#include "../process/overtime.h"
#include "../core/pinned.h"
#include "../core/raw.h"
#include "request.h"
#include "../interpose/uploads.h"
#include "ipc.h"
#include "../core/head.h"
#include "../core/mode.h"
#include "../core/boot_failure.h"
#include "../engine/last_error.h"
#include "../core/worker_state.h"

/* A text of the head, or NULL if the client has sent none. PHP treats an empty text differently. */
static char *optional(struct ipc_Span span)
{
	return span.offset ? (char *)reprise_head_text(span) : NULL;
}

/* php_request_startup reads these, so this is called before it. */
void request_describe(const struct ipc_RequestHead *head)
{
	memset(&SG(request_info), 0, sizeof SG(request_info));
	SG(request_info).request_method = reprise_head_text(head->method);
	SG(request_info).request_uri = (char *)reprise_head_text(head->uri);
	SG(request_info).query_string = (char *)reprise_head_text(head->query);
	SG(request_info).path_translated = (char *)reprise_head_text(head->script);
	SG(request_info).content_type = optional(head->content_type);
	SG(request_info).content_length = head->content_length > 0 ? head->content_length : 0;
	SG(request_info).cookie_data = optional(head->cookies);
	SG(sapi_headers).http_response_code = 200;
	SG(server_context) = reprise_worker;
	php_handle_auth_data(optional(head->authorization));
}

/* A script starts in its own directory, one in a phar in the phar's. That is one system call per request: the last
 * request may have changed it. */
void request_enter_directory(const char *script)
{
	script = reprise_script_on_disk(script);
	const char *slash = strrchr(script, '/');
	char directory[4096];
	size_t size = slash ? (size_t)(slash - script) : 0;

	if (size == 0 || size >= sizeof directory) {
		return;
	}
	memcpy(directory, script, size);
	directory[size] = 0;
	if (chdir(directory) != 0) {
		reprise_log_line("warning", "cannot enter %s: %s", directory, strerror(errno));
	}
}

/* From here on code of the application runs. While a script boots, there is no request. */
void request_script_begins(void)
{
	reprise_worker->stage = REPRISE_RUNNING;
	if (reprise_worker->responding) {
		ipc_show(&reprise_worker->ipc, ipc_Activity_Running);
	}
}

static zend_file_handle *running_script;
/* PHP has compiled the script. The file of auto_prepend_file runs before that. */
static bool script_has_begun;
static zend_op_array *(*next_compile_file)(zend_file_handle *, int);

static zend_op_array *compile_noting_script(zend_file_handle *file, int type)
{
	script_has_begun = script_has_begun || file == running_script;
	return next_compile_file(file, type);
}

bool request_script_has_begun(void)
{
	return script_has_begun;
}

/* A boot has to know whether the call comes from the script or from the file of auto_prepend_file. */
static void note_script(bool begins)
{
	if (begins) {
		script_has_begun = false;
		next_compile_file = zend_compile_file;
		zend_compile_file = compile_noting_script;
	} else if (zend_compile_file == compile_noting_script) {
		zend_compile_file = next_compile_file;
	}
}

/* PHP keeps the file of the script open until the script ends. A snapshot must not hold it. A script that PHP has not
 * compiled is not open, and each request runs it after the snapshot. */
void request_close_script(void)
{
	note_script(false);
	if (running_script && script_has_begun) {
		zend_destroy_file_handle(running_script);
		zend_stream_init_filename(running_script, "");
	}
}

bool request_run_script(const char *script)
{
	zend_file_handle file;

	request_enter_directory(script);
	SG(options) |= SAPI_OPTION_NO_CHDIR;
	zend_stream_init_filename(&file, script);
	file.primary_script = 1;
	request_script_begins();
	running_script = &file;
	if (reprise_worker->is_template || reprise_is_worker_mode()) {
		note_script(true);
	}
	bool ran_to_end = php_execute_script(&file);
	/* As under PHP-FPM, shutdown functions and destructors do not run in the script's directory. */
	if (chdir("/") != 0) {
		reprise_log_line("warning", "cannot enter /: %s", strerror(errno));
	}
	zend_destroy_file_handle(&file);
	running_script = NULL;
	note_script(false);
	return ran_to_end;
}

/* sapi_module.deactivate: PHP resets its own count after it. */
int request_note_memory(void)
{
	reprise_worker->peak = zend_memory_peak_usage(true);
	return SUCCESS;
}

void request_finish_response(void)
{
	if (reprise_options.measures) {
		size_t peak = reprise_worker->peak ? reprise_worker->peak : zend_memory_peak_usage(true);
		ipc_used(&reprise_worker->ipc, (uint32_t)((raw_processor_ns() - reprise_worker->processor_ns) / 1000),
		         (uint32_t)(peak / 1024));
	}
	reprise_worker->responding = false;
	ipc_finish(&reprise_worker->ipc);
}

bool request_finish(void)
{
	if (!reprise_worker->responding) {
		return false;
	}
	if (!SG(headers_sent)) {
		sapi_send_headers();
	}
	request_finish_response();
	return true;
}

bool request_claim(void)
{
	size_t size = ipc_head(&reprise_worker->ipc, reprise_worker->head, sizeof reprise_worker->head);

	reprise_worker->requests++;
	process_overtime_forget();
	interpose_uploads_forget();
	reprise_worker->head_sent = reprise_worker->body_broken = reprise_worker->was_called = false;
	reprise_worker->stage = REPRISE_STARTING;
	reprise_worker->peak = 0;
	if (reprise_options.measures) {
		reprise_worker->processor_ns = raw_processor_ns();
	}
	if (!ipc_enter(&reprise_worker->ipc)) {
		return false;
	}
	reprise_worker->connected = false;
	reprise_worker->responding = true;
	if (size < sizeof(struct ipc_RequestHead)) {
		reprise_service_log("error", "a request head cannot be run: it is too small", NULL);
		_exit(ipc_Exit_Unhealthy);
	}
	return true;
}

/* PHP's last error says why a boot ended early, even if php.ini keeps PHP from logging it. */
void request_boot_ended(const char *how, bool ran_to_end)
{
	char detail[1024] = "";

	if (ran_to_end) {
		reprise_log_line("error", "%s cannot be booted: %s; mode = \"classic\" for this script ends the attempts",
		                 reprise_head_text(reprise_head()->script), how);
		_exit(ipc_Exit_NotAsked);
	}
	if (engine_last_error()) {
		const char *file = engine_last_error_file();
		snprintf(detail, sizeof detail, "PHP's last message: %s in %s on line %d", engine_last_error(),
		         file ? file : "?", engine_last_error_line());
	}
	reprise_boot_failed(how, *detail ? detail : NULL);
}
