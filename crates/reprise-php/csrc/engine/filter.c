/*
 * ext/filter keeps a copy of each variable of a request, for filter_input(INPUT_SERVER, …) and the like. The copy costs
 * more than $_SERVER itself, and few requests ask for it. So ext/filter gets the variables when a request first calls
 * one of the functions that read the copy. That changes nothing as long as `filter.default` changes no variable and no
 * other extension looks at them.
 */
#define _GNU_SOURCE
#include <php.h>
#include <SAPI.h>
#include <zend_ini.h>

#include <dlfcn.h>

#include "../core/worker_state.h"
#include "filter.h"
#include "wrap.h"

static void (*copy_variables)(void);
static const zend_ini_entry *default_filter;

static zif_handler input_of_php, inputs_of_php, has_of_php;

static void copy_now(void)
{
	/* $_SERVER may not have been made yet. Its making notes that ext/filter waits. */
	zend_is_auto_global(ZSTR_KNOWN(ZEND_STR_AUTOGLOBAL_SERVER));
	if (reprise_worker->filter_waits) {
		reprise_worker->filter_waits = false;
		copy_variables();
	}
}

static void copying_input(INTERNAL_FUNCTION_PARAMETERS)
{
	copy_now();
	input_of_php(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static void copying_inputs(INTERNAL_FUNCTION_PARAMETERS)
{
	copy_now();
	inputs_of_php(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static void copying_has(INTERNAL_FUNCTION_PARAMETERS)
{
	copy_now();
	has_of_php(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

/* Another extension may look at the variables too. */
static bool is_of_libphp(const void *function)
{
	Dl_info its, libphps;

	return dladdr(function, &its) && dladdr((const void *)(uintptr_t)sapi_startup, &libphps)
	       && its.dli_fbase == libphps.dli_fbase;
}

void engine_filter_watch(void)
{
	engine_wrap_function("filter_input", copying_input, &input_of_php);
	engine_wrap_function("filter_input_array", copying_inputs, &inputs_of_php);
	engine_wrap_function("filter_has_var", copying_has, &has_of_php);
}

void engine_filter_start(void (*copy)(void))
{
	if (zend_hash_str_exists(&module_registry, ZEND_STRL("filter"))
	    && is_of_libphp((const void *)(uintptr_t)sapi_module.input_filter)) {
		copy_variables = copy;
		default_filter = zend_hash_str_find_ptr(EG(ini_directives), ZEND_STRL("filter.default"));
	}
}

bool engine_filter_waits(void)
{
	reprise_worker->filter_waits =
	    default_filter && default_filter->value && zend_string_equals_literal(default_filter->value, "unsafe_raw");
	return reprise_worker->filter_waits;
}

void engine_filter_forget(void)
{
	reprise_worker->filter_waits = false;
}
