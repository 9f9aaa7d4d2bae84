/*
 * What PHP's own functions remember after a call. Between two requests of a worker script it is forgotten, or is set to
 * what the script had when its loop began.
 */
#define _GNU_SOURCE
#include <php.h>
#include <php_ini.h>
#include <ext/json/php_json.h>
#include <ext/standard/basic_functions.h>
#include <ext/standard/file.h>
#include <ext/standard/php_filestat.h>
#include <zend_signal.h>
#include <zend_smart_str.h>

#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "../core/pinned.h"
#include "exceptions.h"
#include "function_state.h"
#include "last_error.h"
#include "patterns.h"
#include "random_state.h"

/* Before PHP 8.4 pcntl tells of no other signals. */
#define PCNTL_SIGNALS 32

static struct {
	mode_t umask;
	size_t tick_functions;
	bool libxml_errors;          /* libxml keeps its errors for libxml_get_errors() */
	php_stream_context *context; /* the default context, or NULL */
	HashTable *context_options;  /* of the default context */
	HashTable *wrappers;         /* stream wrappers, name => wrapper; NULL: PHP's own */
	bool async_signals;
	HashTable *signal_handlers; /* number => handler of pcntl_signal() */
	struct sigaction actions[NSIG];
} kept;

/* Calls a function of a module that may not be loaded. False: there is no such function. */
static bool call(const char *name, zval *result, uint32_t count, zval *arguments)
{
	zend_function *function = zend_hash_str_find_ptr(EG(function_table), name, strlen(name));

	ZVAL_UNDEF(result);
	if (!function || function->type != ZEND_INTERNAL_FUNCTION) {
		return false;
	}
	zend_call_known_function(function, NULL, NULL, result, count, arguments, NULL);
	return true;
}

/* Whether libxml keeps its errors. With `set`, it does so from here on if `to` says so. */
static bool libxml_keeps_errors(bool set, bool to)
{
	zval keeps, argument;

	ZVAL_BOOL(&argument, to);
	return call("libxml_use_internal_errors", &keeps, set ? 1 : 0, &argument) && Z_TYPE(keeps) == IS_TRUE;
}

static size_t tick_functions(void)
{
	return BG(user_tick_functions) ? zend_llist_count(BG(user_tick_functions)) : 0;
}

static void handler_of(zend_long number, zval *handler)
{
	zval argument;

	ZVAL_LONG(&argument, number);
	if (!call("pcntl_signal_get_handler", handler, 1, &argument)) {
		ZVAL_LONG(handler, 0);
	}
}

/* Whether handlers of signals run by themselves. With `set`, they do so from here on if `to` says so. */
static bool signals_are_async(bool set, bool to)
{
	zval are, argument;

	ZVAL_BOOL(&argument, to);
	return call("pcntl_async_signals", &are, set ? 1 : 0, &argument) && Z_TYPE(are) == IS_TRUE;
}

static void note_signal_handlers(void)
{
	kept.async_signals = signals_are_async(false, false);
	kept.signal_handlers = zend_new_array(0);
	for (zend_long number = 1; number <= PCNTL_SIGNALS; number++) {
		zval handler;
		handler_of(number, &handler);
		zend_hash_index_update(kept.signal_handlers, (zend_ulong)number, &handler);
	}
	for (int number = 1; number < NSIG; number++) {
		zend_sigaction(number, NULL, &kept.actions[number]);
	}
}

static void restore_handler_of(zend_long number)
{
	zval *before = zend_hash_index_find(kept.signal_handlers, (zend_ulong)number);
	zval now, result, arguments[2];

	handler_of(number, &now);
	if (!zend_is_identical(&now, before)) {
		ZVAL_LONG(&arguments[0], number);
		ZVAL_COPY_VALUE(&arguments[1], before);
		call("pcntl_signal", &result, 2, arguments);
	}
	zval_ptr_dtor(&now);
}

/* The engine has a table of its own, from which its handler in the kernel calls others. */
static void restore_action_of(int number)
{
	const struct sigaction *before = &kept.actions[number];
	struct sigaction now;

	zend_sigaction(number, NULL, &now);
	if (now.sa_handler != before->sa_handler || now.sa_flags != before->sa_flags) {
		zend_sigaction(number, before, NULL);
	}
}

/* The kernel's own side of it follows (signals.c). */
void engine_functions_restore_signal_handlers(void)
{
	for (zend_long number = 1; number <= PCNTL_SIGNALS; number++) {
		restore_handler_of(number);
	}
	for (int number = 1; number < NSIG; number++) {
		restore_action_of(number);
	}
}

/*
 * Calls PHP's chdir(). opcache remembers the directory of the last chdir(), to find files that are included by a
 * relative name. In worker mode opcache sees no request begin, so it would keep the directory of an earlier request.
 */
bool engine_functions_enter_directory(const char *script)
{
	script = reprise_script_on_disk(script);
	const char *slash = strrchr(script, '/');
	zend_long reporting = EG(error_reporting);
	zval result, directory;

	if (!slash || slash == script) {
		return true;
	}
	ZVAL_STRINGL(&directory, script, (size_t)(slash - script));
	EG(error_reporting) = 0;
	call("chdir", &result, 1, &directory);
	EG(error_reporting) = (int)reporting;
	zval_ptr_dtor(&directory);
	return Z_TYPE(result) == IS_TRUE;
}

void engine_functions_note(void)
{
	kept.umask = umask(0);
	umask(kept.umask);
	/* Any other value means from here on that a request has changed the umask. */
	BG(umask) = -1;
	kept.tick_functions = tick_functions();
	kept.libxml_errors = libxml_keeps_errors(false, false);
	kept.context = FG(default_context);
	if (kept.context) {
		GC_ADDREF(kept.context->res);
		kept.context_options = zend_array_dup(Z_ARRVAL(kept.context->options));
	}
	if (FG(stream_wrappers)) {
		kept.wrappers = zend_array_dup(FG(stream_wrappers));
	}
	note_signal_handlers();
	/* The first request finds nothing of the boot either, so all requests are alike. */
	engine_functions_forget();
}

/* A request may have replaced the default context, or set other options. */
static void restore_default_context(void)
{
	php_stream_context *now = FG(default_context);

	if (now && now != kept.context) {
		zend_list_delete(now->res);
	}
	FG(default_context) = kept.context;
	if (kept.context && Z_ARRVAL(kept.context->options) != kept.context_options) {
		zval_ptr_dtor(&kept.context->options);
		ZVAL_ARR(&kept.context->options, zend_array_dup(kept.context_options));
	}
}

/* Removes stream wrappers that requests have registered, and registers wrappers of PHP that requests have removed. */
static void restore_wrappers(void)
{
	HashTable *original = php_stream_get_url_stream_wrappers_hash_global(), *now = FG(stream_wrappers);
	zend_string *name;
	void *wrapper;

	if (!now) {
		return;
	}
	HashTable *before = kept.wrappers ? kept.wrappers : original;
	HashTable *copy = zend_array_dup(now);
	ZEND_HASH_FOREACH_STR_KEY_PTR(copy, name, wrapper)
	{
		zval result, argument;
		if (zend_hash_find_ptr(before, name) != wrapper && zend_hash_find_ptr(original, name) != wrapper) {
			ZVAL_STR(&argument, name);
			if (!call("stream_wrapper_unregister", &result, 1, &argument)) {
				php_unregister_url_stream_wrapper_volatile(name);
			}
		}
	}
	ZEND_HASH_FOREACH_END();
	zend_array_destroy(copy);
	ZEND_HASH_FOREACH_STR_KEY_PTR(original, name, wrapper)
	{
		if (zend_hash_find_ptr(before, name) == wrapper) {
			zend_hash_add_ptr(now, name, wrapper);
		}
	}
	ZEND_HASH_FOREACH_END();
}

/* As the request shutdown of ext/standard does. Worker mode does not call that. Without this, output_add_rewrite_var()
 * would have no effect after the first request. */
static void forget_rewriting(url_adapt_state_ex_t *state)
{
	if (state->active) {
		smart_str_free(&state->result);
		smart_str_free(&state->buf);
		smart_str_free(&state->tag);
		smart_str_free(&state->arg);
		smart_str_free(&state->attr_val);
		state->active = 0;
		state->tag_type = 0;
		state->attr_type = 0;
	}
	smart_str_free(&state->form_app);
	smart_str_free(&state->url_app);
}

/* What is destroyed otherwise may hold objects. */
bool engine_functions_are_as_noted(void)
{
	return tick_functions() <= kept.tick_functions && FG(default_context) == kept.context
	       && (!kept.context || Z_ARRVAL(kept.context->options) == kept.context_options);
}

void engine_functions_forget(void)
{
	zval result;

	engine_forget_seeds();
	if (BG(strtok_string)) {
		zend_string_release(BG(strtok_string));
		BG(strtok_string) = NULL;
	}
	if (BG(umask) != -1) {
		umask(kept.umask);
		BG(umask) = -1;
	}
	while (tick_functions() > kept.tick_functions) {
		zend_llist_remove_tail(BG(user_tick_functions));
	}
	/* A destructor may have thrown. PHP calls no function while an exception is pending. */
	engine_settle_exception();
	forget_rewriting(&BG(url_adapt_session_ex));
	forget_rewriting(&BG(url_adapt_output_ex));
	restore_default_context();
	engine_settle_exception();
	restore_wrappers();
	engine_settle_exception();
	php_clear_stat_cache(0, NULL, 0);
	JSON_G(error_code) = PHP_JSON_ERROR_NONE;
	engine_forget_pattern_error();
	if (libxml_keeps_errors(false, false) != kept.libxml_errors) {
		libxml_keeps_errors(true, kept.libxml_errors);
	}
	if (signals_are_async(false, false) != kept.async_signals) {
		signals_are_async(true, kept.async_signals);
	}
	call("libxml_clear_errors", &result, 0, NULL);
	call("http_clear_last_response_headers", &result, 0, NULL);
	engine_forget_last_error();
}
