/* A file cache of opcache that this user can only read: file_cache.c. */
#ifndef REPRISE_FILE_CACHE_H
#define REPRISE_FILE_CACHE_H

#include <stdbool.h>

/* Before PHP starts. False if there is no memory. */
bool interpose_file_cache_use(const char *directory);
/* PHP has started. */
void interpose_file_cache_started(void);

#endif
