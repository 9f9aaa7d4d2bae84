/* Paths of scripts that are included. */
#ifndef REPRISE_INCLUDED_PATHS_H
#define REPRISE_INCLUDED_PATHS_H

#include <php.h>

#include <stddef.h>
#include <stdint.h>

/*
 * opcache keeps the path by which a script is included, and counts references to it, even if it is an interned string
 * (ZendAccelerator.c: accel_new_interned_key). From now on it gets copies of paths in this memory, which can only be
 * read. To be called once, when PHP's modules have started.
 */
void engine_included_paths_copy(uintptr_t memory, size_t size);

/* Calls `each` with the path of every file that has been included, the script itself among them. */
void engine_each_included(void (*each)(const zend_string *path));

#endif
