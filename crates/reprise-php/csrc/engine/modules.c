/*
 * PHP's modules between two requests of a worker script.
 */
#define _GNU_SOURCE
#include <php.h>

#include <strings.h>

#include "modules.h"
#include "step.h"

/*
 * Modules that come with PHP keep in their request state what the application has built (autoloaders, archives,
 * encodings), but for these; modules of others, profilers among them, see each request begin and end. Not opcache: it
 * restarts when a request begins and no other process holds its lock, under the code that the script runs. Nor Xdebug:
 * it keeps the stack of calls there, and the loop is one that goes on.
 */
static bool sees_requests(const zend_module_entry *module)
{
	static const char *const reset[] = {"filter", "session", "zlib"};
	static const char *const kept[] = {
	    "core",     "standard", "spl",      "date",    "reflection",   "pcre",    "json",      "hash",      "random",
	    "ctype",    "mbstring", "dom",      "libxml",  "simplexml",    "xml",     "xmlreader", "xmlwriter", "xsl",
	    "phar",     "pdo",      "mysqli",   "mysqlnd", "sqlite3",      "pgsql",   "curl",      "openssl",   "ffi",
	    "fileinfo", "ftp",      "gd",       "gettext", "gmp",          "iconv",   "intl",      "imap",      "ldap",
	    "pcntl",    "posix",    "readline", "shmop",   "soap",         "sockets", "sodium",    "sysvmsg",   "sysvsem",
	    "sysvshm",  "tidy",     "zip",      "exif",    "calendar",     "bcmath",  "bz2",       "tokenizer", "odbc",
	    "snmp",     "dba",      "enchant",  "pspell",  "xmlrpc",       "oci8",    "reprise",   "redis",     "memcached",
	    "igbinary", "msgpack",  "imagick",  "apcu",    "zend opcache", "xdebug",  "uri",       "lexbor",
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

/* Modules that see requests, in the order in which they were loaded; found anew when one has been loaded since. */
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

/* Some, profilers among them, do the last of their work here. */
static void leave_module(zend_module_entry *module)
{
	STEP(module->post_deactivate_func());
}

/* They were told that a request is over. */
static bool are_stopped;

/* What follows a request's end is done before the next one begins: if none comes, PHP does it at the end of the script.
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

void reprise_modules_start(void)
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

void reprise_modules_stop(void)
{
	find_seeing();
	for (size_t i = seeing.count; i > 0; i--) {
		if (seeing.modules[i - 1]->request_shutdown_func) {
			stop_module(seeing.modules[i - 1]);
		}
	}
	are_stopped = true;
}
