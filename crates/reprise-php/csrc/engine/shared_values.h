/*
 * Values in memory that all workers of an application read: arrays as opcache lays out constant ones (immutable, so PHP
 * copies them before it changes them), and strings that are interned, but not permanent. Interned strings that are not
 * permanent are what literals are without opcache: they end with the request, and PHP knows that. Permanent ones would
 * be kept: pcre_cache has a pointer to such a key for ever.
 *
 * What lives longer than a request, in PHP 8.2 and 8.4 (tests/tests/data_cache/data_cache_tables.rs looks for pointers
 * from all of it after a request has used values in each way):
 *
 * | table | what it takes |
 * |---|---|
 * | pcre_cache, its tables of characters by locale | copies of what is not permanent |
 * | settings: values set by ini_set(), and what their handlers keep | the string; put back at the end of the request |
 * | putenv(), setlocale(), openlog(), textdomain(), date_default_timezone_set() | copies of the bytes |
 * | BG(ctype_string), MBSTRG(last_used_encoding_name), the last error, strtok(), PS(mod_user_class_name), PS(id) | the
 *   string; let go at the end of the request |
 * | constants, classes, aliases, functions of a request; static variables | the string; gone with the request |
 * | persistent streams and connections (streams, mysqlnd, PDO, Redis, Memcached), by name | copies of the bytes |
 * | mb_ereg's cache, SOAP's cache of descriptions, cached phars, libxml, ICU, Oniguruma, SQLite, curl | copies of the
 *   bytes; SQLite's statements point to bound strings until they are finalized, at the end of the request |
 * | APCu, igbinary, msgpack, opcache's scripts, classes and strings | copies, also of what is interned |
 * | opcache's paths of scripts | copies, but it counts references to the string before: included_paths.h |
 */
#ifndef REPRISE_SHARED_VALUES_H
#define REPRISE_SHARED_VALUES_H

#include <php.h>

#include <stdbool.h>
#include <stddef.h>

/* What can be done with a value. */
enum shared_fit {
	SHARED_FITS,      /* it can be laid out */
	SHARED_SERIALIZE, /* it has objects or references in it */
	SHARED_RESOURCE,  /* it has a resource in it */
	SHARED_TOO_DEEP   /* its arrays are nested too deep */
};

/* Arrays in arrays, at most. */
#define SHARED_DEPTH 512

/* Bytes behind the value itself, if it fits. */
enum shared_fit engine_shared_measure(const zval *value, size_t *size);

/* Lays out a value that fits, as measured: the value to `zval`, what it points to at `data`. Pointers get `to_read`
 * added. */
void engine_shared_lay_out(zval *target, const zval *value, char *data, ptrdiff_t to_read);

/* Lays out a string of these bytes; it takes engine_shared_string_size(size). */
void engine_shared_lay_out_string(zval *target, const char *bytes, size_t size, char *data, ptrdiff_t to_read);
size_t engine_shared_string_size(size_t size);

/* The entry of a value was moved: adds `shift` to each pointer in it. `alias` is the distance from where a pointer
 * points to where that can be written. Runs on any stack. */
void engine_shared_relocate(zval *value, ptrdiff_t shift, ptrdiff_t alias);

/* A copy that points to nothing shared. */
void engine_shared_copy_out(zval *target, const zval *value);

#endif
