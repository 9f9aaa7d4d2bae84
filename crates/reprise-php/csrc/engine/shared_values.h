/*
 * Values in memory that all workers of an application read: arrays as opcache lays out constant ones (immutable, so PHP
 * copies them before it changes them), and strings that are interned, but not permanent. PHP's process-wide tables
 * (pcre_cache) keep pointers to permanent strings for ever, and these strings are gone one day.
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
enum shared_fit reprise_shared_measure(const zval *value, size_t *size);

/* Lays out a value that fits, as measured: the value to `zval`, what it points to at `data`. Pointers get `to_read`
 * added. */
void reprise_shared_lay_out(zval *target, const zval *value, char *data, ptrdiff_t to_read);

/* Lays out a string of these bytes; it takes reprise_shared_string_size(size). */
void reprise_shared_lay_out_string(zval *target, const char *bytes, size_t size, char *data, ptrdiff_t to_read);
size_t reprise_shared_string_size(size_t size);

/* The entry of a value was moved: adds `shift` to each pointer in it. `alias` is the distance from where a pointer
 * points to where that can be written. Runs on any stack. */
void reprise_shared_relocate(zval *value, ptrdiff_t shift, ptrdiff_t alias);

/* A copy that points to nothing shared. */
void reprise_shared_copy_out(zval *target, const zval *value);

#endif
