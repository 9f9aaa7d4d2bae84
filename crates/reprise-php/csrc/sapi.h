/* The SAPI: PHP's callbacks. */
#ifndef REPRISE_SAPI_H
#define REPRISE_SAPI_H

#include <stdbool.h>

bool reprise_sapi_load(void);  /* loads PHP and its modules */
bool reprise_sapi_start(void); /* also prepares PHP for the application's code */

#endif
