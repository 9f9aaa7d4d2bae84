/*
 * PHP's modules: their names, what they do between two requests of a worker script, and what they need not do at the
 * end of a request from a snapshot.
 */
#define _GNU_SOURCE
#include <php.h>

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "modules.h"
#include "step.h"

/*
 * Most modules of PHP keep in their request state what the application has built: autoloaders, archives, encodings. So
 * they do not see the requests of a worker script, except for those in `reset` (APCu keeps the time of the request, see
 * below). Modules of other makers, profilers
 * among them, see each request begin and end. Two of them do not. opcache could restart when a request begins and no
 * other process holds its lock, and the script would lose its code. Xdebug keeps the call stack in its request state,
 * and the call of the script goes on.
 */
static bool sees_requests(const zend_module_entry *module)
{
	static const char *const reset[] = {"filter", "session", "zlib", "apcu"};
	static const char *const kept[] = {
	    "core",      "standard", "spl",          "date",     "reflection", "pcre",      "json",      "hash",
	    "random",    "ctype",    "mbstring",     "dom",      "libxml",     "simplexml", "xml",       "xmlreader",
	    "xmlwriter", "xsl",      "phar",         "pdo",      "mysqli",     "mysqlnd",   "sqlite3",   "pgsql",
	    "curl",      "openssl",  "ffi",          "fileinfo", "ftp",        "gd",        "gettext",   "gmp",
	    "iconv",     "intl",     "imap",         "ldap",     "pcntl",      "posix",     "readline",  "shmop",
	    "soap",      "sockets",  "sodium",       "sysvmsg",  "sysvsem",    "sysvshm",   "tidy",      "zip",
	    "exif",      "calendar", "bcmath",       "bz2",      "tokenizer",  "odbc",      "snmp",      "dba",
	    "enchant",   "pspell",   "xmlrpc",       "oci8",     "reprise",    "redis",     "memcached", "igbinary",
	    "msgpack",   "imagick",  "zend opcache", "xdebug",   "uri",        "lexbor",
	};

	for (size_t i = 0; i < sizeof reset / sizeof *reset; i++) {
		if (strcasecmp(module->name, reset[i]) == 0) {
			return true;
		}
	}
	for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
		if (strcasecmp(module->name, kept[i]) == 0) {
			return false;
		}
	}
	return strncasecmp(module->name, "pdo_", 4) != 0;
}

/* Modules that see requests, in the order in which they were loaded. The list is made again when a module was loaded.
 */
static struct {
	zend_module_entry **modules;
	size_t count;
	uint32_t of; /* modules looked at */
} seeing;

static void find_seeing(void)
{
	zend_module_entry *module;
	uint32_t all = zend_hash_num_elements(&module_registry);

	if (seeing.of == all) {
		return;
	}
	seeing.modules = perealloc(seeing.modules, all * sizeof *seeing.modules, 1);
	seeing.count = 0;
	seeing.of = all;
	ZEND_HASH_FOREACH_PTR(&module_registry, module)
	{
		if ((module->request_startup_func || module->request_shutdown_func || module->post_deactivate_func)
		    && sees_requests(module)) {
			seeing.modules[seeing.count++] = module;
		}
	}
	ZEND_HASH_FOREACH_END();
}

/* Profilers and others do a part of their work here. */
static void leave_module(zend_module_entry *module)
{
	STEP(module->post_deactivate_func());
}

/* The modules have seen the end of a request. */
static bool are_stopped;

/* This step of a request's end comes before the next request. If there is none, PHP does it at the end of the script.
 */
static void leave_modules(void)
{
	for (size_t i = seeing.count; are_stopped && i > 0; i--) {
		if (seeing.modules[i - 1]->post_deactivate_func) {
			leave_module(seeing.modules[i - 1]);
		}
	}
	are_stopped = false;
}

void engine_modules_start(void)
{
	leave_modules();
	find_seeing();
	for (size_t i = 0; i < seeing.count; i++) {
		zend_module_entry *module = seeing.modules[i];
		if (module->request_startup_func) {
			module->request_startup_func(module->type, module->module_number);
		}
	}
}

static void stop_module(zend_module_entry *module)
{
	STEP(module->request_shutdown_func(module->type, module->module_number));
}

void engine_modules_stop(void)
{
	find_seeing();
	for (size_t i = seeing.count; i > 0; i--) {
		if (seeing.modules[i - 1]->request_shutdown_func) {
			stop_module(seeing.modules[i - 1]);
		}
	}
	are_stopped = true;
}

static int leave_to_rewind(SHUTDOWN_FUNC_ARGS)
{
	(void)type;
	(void)module_number;
	return SUCCESS;
}

/*
 * PHP has a list of the modules whose request shutdown it calls, so a function that does nothing takes the place of
 * each of these. What they do is to free and forget what the request has left in their memory: variables, results of
 * matches, archives. Files that are still open are resources or are closed by the rewind (snapshot/kernel.c). Each of
 * them also writes to a page of its own for each request, which the rewind would have to put back.
 */
void engine_modules_leave_memory(void)
{
	static const char *const memory_alone[] = {"filter", "intl", "mbstring", "phar", "readline"};

	for (size_t i = 0; i < sizeof memory_alone / sizeof *memory_alone; i++) {
		zend_module_entry *module = zend_hash_str_find_ptr(&module_registry, memory_alone[i], strlen(memory_alone[i]));
		if (module && module->request_shutdown_func) {
			module->request_shutdown_func = leave_to_rewind;
		}
	}
}

/* With apc.use_request_time APCu keeps the time that it has asked for until its next request startup, and its request
 * startup does nothing else. What asks for the time after this call gets the time of its own request. */
void engine_modules_forget_time(void)
{
	zend_module_entry *module = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("apcu"));

	if (module && module->request_startup_func) {
		module->request_startup_func(module->type, module->module_number);
	}
}

void engine_print_extensions(void)
{
	zend_module_entry *module;

	ZEND_HASH_FOREACH_PTR(&module_registry, module)
	{
		printf("extension %s\n", module->name);
	}
	ZEND_HASH_FOREACH_END();
}

/* What code may name: functions, classes and constants of PHP and its extensions, without what disable_functions takes
 * away. No request has run, so all of them are PHP's own. Names of functions and classes are in lower case. */
void engine_print_symbols(void)
{
	zend_string *name;

	ZEND_HASH_FOREACH_STR_KEY(CG(function_table), name)
	{
		printf("function %s\n", ZSTR_VAL(name));
	}
	ZEND_HASH_FOREACH_END();
	ZEND_HASH_FOREACH_STR_KEY(CG(class_table), name)
	{
		printf("class %s\n", ZSTR_VAL(name));
	}
	ZEND_HASH_FOREACH_END();
	ZEND_HASH_FOREACH_STR_KEY(EG(zend_constants), name)
	{
		printf("constant %s\n", ZSTR_VAL(name));
	}
	ZEND_HASH_FOREACH_END();
	ZEND_HASH_FOREACH_STR_KEY(EG(ini_directives), name)
	{
		printf("setting %s\n", ZSTR_VAL(name));
	}
	ZEND_HASH_FOREACH_END();
}

bool engine_has_module(const char *name)
{
	return zend_hash_str_exists(&module_registry, name, strlen(name));
}
