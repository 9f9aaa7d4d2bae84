/*
 * For `reprise release build`: compiles scripts into a file cache of opcache, with the hooks that the prototypes of
 * this executable have: opcache's name for a build of PHP says which hooks there are, and finds only what has the same
 * name. No code of the scripts runs.
 */
#include <php.h>
#include <php_main.h>
#include <SAPI.h>

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "compile.h"

#include "ipc.h"

/* A syntax error ends the call, as a fatal error ends a request. It comes again when a request loads the file. */
static bool compile(zend_function *function, const char *path, size_t size)
{
	volatile bool is_compiled = false;
	zval argument, result;

	ZVAL_STRINGL(&argument, path, size);
	ZVAL_UNDEF(&result);
	zend_try
	{
		zend_call_known_function(function, NULL, NULL, &result, 1, &argument, NULL);
		is_compiled = Z_TYPE(result) == IS_TRUE;
	}
	zend_end_try();
	zval_ptr_dtor(&argument);
	return is_compiled;
}

static void compile_all(zend_function *function)
{
	char line[PATH_MAX + 2];

	while (fgets(line, sizeof line, stdin)) {
		size_t size = strcspn(line, "\n");
		line[size] = 0;
		/* Whoever reads them knows at which file this process has ended, if it does. */
		puts(compile(function, line, size) ? "ok" : "no");
		fflush(stdout);
	}
}

static void no_variables(zval *array)
{
}

int engine_compile_run(void)
{
	volatile int code = ipc_Exit_NotBooted;

	memset(&SG(request_info), 0, sizeof SG(request_info));
	/* There is no request: extensions that look for one when it begins find nothing. */
	sapi_module.register_server_variables = no_variables;
	zend_first_try
	{
		if (php_request_startup() == SUCCESS) {
			zend_function *function = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("opcache_compile_file"));
			if (function && zend_ini_long(ZEND_STRL("opcache.enable"), 0)) {
				compile_all(function);
				code = ipc_Exit_Success;
			} else {
				fputs("reprise-php: opcache is not loaded, or disable_functions has opcache_compile_file\n", stderr);
			}
		}
	}
	zend_end_try();
	return code;
}
