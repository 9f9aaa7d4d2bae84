/*
 * PHP's modules between two requests of a worker script.
 */
#define _GNU_SOURCE
#include <php.h>

#include <strings.h>

#include "loop.h"

/* Modules that come with PHP keep in their request state what the application has built (autoloaders, archives,
 * encodings), but for these; modules of others, profilers among them, see each request begin and end. */
static bool sees_requests(const zend_module_entry *module)
{
	static const char *const reset[] = {"filter", "session", "zlib"};
	static const char *const kept[] = {
	    "core",     "standard", "spl",      "date",    "reflection", "pcre",    "json",      "hash",      "random",
	    "ctype",    "mbstring", "dom",      "libxml",  "simplexml",  "xml",     "xmlreader", "xmlwriter", "xsl",
	    "phar",     "pdo",      "mysqli",   "mysqlnd", "sqlite3",    "pgsql",   "curl",      "openssl",   "ffi",
	    "fileinfo", "ftp",      "gd",       "gettext", "gmp",        "iconv",   "intl",      "imap",      "ldap",
	    "pcntl",    "posix",    "readline", "shmop",   "soap",       "sockets", "sodium",    "sysvmsg",   "sysvsem",
	    "sysvshm",  "tidy",     "zip",      "exif",    "calendar",   "bcmath",  "bz2",       "tokenizer", "odbc",
	    "snmp",     "dba",      "enchant",  "pspell",  "xmlrpc",     "oci8",    "reprise",   "redis",     "memcached",
	    "igbinary", "msgpack",  "imagick",  "apcu",    "opcache",
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

void reprise_loop_start_modules(void)
{
	zend_module_entry *module;

	ZEND_HASH_FOREACH_PTR(&module_registry, module)
	{
		if (module->request_startup_func && sees_requests(module)) {
			module->request_startup_func(module->type, module->module_number);
		}
	}
	ZEND_HASH_FOREACH_END();
}

static void stop_module(zend_module_entry *module)
{
	STEP(module->request_shutdown_func(module->type, module->module_number));
}

void reprise_loop_stop_modules(void)
{
	zend_module_entry *module;

	ZEND_HASH_REVERSE_FOREACH_PTR(&module_registry, module)
	{
		if (module->request_shutdown_func && sees_requests(module)) {
			stop_module(module);
		}
	}
	ZEND_HASH_FOREACH_END();
}
