/* The SAPI: PHP's callbacks. */
#ifndef REPRISE_SAPI_H
#define REPRISE_SAPI_H

#include <stdbool.h>

#include <php.h>

/* First of all: the functions of reprise.stub.php, and what takes the output of a boot. */
void request_sapi_offer(const zend_function_entry *functions, void (*boot_output)(const char *bytes, size_t size));
bool request_sapi_load(void);  /* loads PHP and its modules */
bool request_sapi_start(void); /* also prepares PHP for the application's code */

#endif
