/* The libphp that the loader has found for this process, looked at before any of its code runs. */
#ifndef REPRISE_LIBPHP_H
#define REPRISE_LIBPHP_H

#include <stdbool.h>

struct dl_phdr_info;

/* Whether a loaded library is libphp (for dl_iterate_phdr). */
bool engine_libphp_is(const struct dl_phdr_info *library);

/* Its path. */
const char *engine_libphp_path(void);

/* PHP's version, as the library says it; an empty string if it does not say it. */
const char *engine_libphp_version(void);

/* False: a message on standard error says that the library is of another version, or lacks something. */
bool engine_libphp_is_own(void);

#endif
