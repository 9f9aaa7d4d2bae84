/*
 * Settings of PHP-FPM. The SAPI's name is fpm-fcgi, so scripts ask for them. fastcgi.error_header works. The others
 * have a value and no effect: they say how to read what a web server passes by FastCGI, and here the front finds the
 * script and splits its path.
 */
#include <php.h>
#include <php_ini.h>
#include <SAPI.h>

#include <string.h>

#include "cgi.h"
#include "../engine/request_state.h"
#include "../engine/step.h"
#include "../core/worker_state.h"

PHP_INI_BEGIN()
PHP_INI_ENTRY("cgi.rfc2616_headers", "0", PHP_INI_ALL, NULL)
PHP_INI_ENTRY("cgi.nph", "0", PHP_INI_ALL, NULL)
PHP_INI_ENTRY("cgi.fix_pathinfo", "1", PHP_INI_SYSTEM, NULL)
PHP_INI_ENTRY("cgi.discard_path", "0", PHP_INI_SYSTEM, NULL)
PHP_INI_ENTRY("fastcgi.logging", "1", PHP_INI_SYSTEM, NULL)
PHP_INI_ENTRY("fastcgi.error_header", NULL, PHP_INI_SYSTEM, NULL)
PHP_INI_END()

void request_register_settings(int module_number)
{
	zend_register_ini_entries(ini_entries, module_number);
}

void request_add_error_header(void)
{
	if (engine_exit_status() != REPRISE_STATUS_FAILED || SG(headers_sent) || !reprise_worker->responding) {
		return;
	}
	char *line = zend_ini_string("fastcgi.error_header", strlen("fastcgi.error_header"), 0);
	if (line && *line) {
		sapi_header_line header = {.line = line, .line_len = strlen(line)};
		STEP(sapi_header_op(SAPI_HEADER_REPLACE, &header));
	}
}
