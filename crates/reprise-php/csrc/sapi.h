/* The SAPI: sapi.c. */
#ifndef REPRISE_SAPI_H
#define REPRISE_SAPI_H

#include <stdbool.h>

bool reprise_sapi_load(void);  /* PHP and its modules alone */
bool reprise_sapi_start(void); /* with what an application needs */

#endif
