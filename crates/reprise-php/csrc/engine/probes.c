/*
 * Probes of PHP at the start. They compare the PHP that Reprise was compiled for with the PHP that runs. The files of
 * this directory use structures that PHP changes between versions. With another layout they would read and write the
 * wrong words. So reprise-php does not start when a probe fails.
 *
 * Before any code of libphp runs:
 * - PHP's minor version and the functions that are used (libphp.c).
 * - The size of each structure that is used, as the dynamic symbol table of the library that has it says it.
 *
 * When PHP's modules have started, and before code of an application runs:
 * - PHP's version, API number, debug mode and thread safety, as its core module says them.
 * - Functions that have other names or places in other versions, by what they do.
 * - opcache is of libphp's own release: it knows the engine's insides. While packages are upgraded, it may not be.
 */
#define _GNU_SOURCE
#include <php.h>
#include <php_main.h>
#include <php_output.h>
#include <SAPI.h>
#include <ext/json/php_json.h>
#include <ext/pcre/php_pcre.h>
#include <ext/random/php_random.h>
#include <ext/session/php_session.h>
#include <ext/standard/basic_functions.h>
#include <ext/standard/file.h>
#include <zend_extensions.h>
#include <zend_modules.h>
#include <zend_vm.h>

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "engine.h"
#include "free_lists.h"
#include "libphp.h"
#include "probes.h"

static bool refuse(const char *what, const char *expected, const char *found)
{
	fprintf(
	    stderr,
	    "reprise-php: libphp is not what reprise-php was compiled for: %s is %s, expected %s\n"
	    "hint: install the libphp of PHP %d.%d, or build reprise-php with the headers of the one that is installed\n",
	    what, found, expected, PHP_MAJOR_VERSION, PHP_MINOR_VERSION);
	return false;
}

static bool is_number(const char *what, long expected, long found)
{
	char expected_text[24], found_text[24];

	if (expected == found) {
		return true;
	}
	snprintf(expected_text, sizeof expected_text, "%ld", expected);
	snprintf(found_text, sizeof found_text, "%ld", found);
	return refuse(what, expected_text, found_text);
}

static const char *running_version(void)
{
	const zval *runs = zend_get_constant_str(ZEND_STRL("PHP_VERSION"));

	return runs && Z_TYPE_P(runs) == IS_STRING ? Z_STRVAL_P(runs) : "not known";
}

/* Another patch release is accepted: the other probes check its structures. */
static bool is_version(void)
{
	static const char compiled[] = PHP_VERSION;
	const char *found = running_version();
	size_t minor = (size_t)(strrchr(compiled, '.') - compiled) + 1;

	return strncmp(compiled, found, minor) == 0 || refuse("PHP's version", compiled, found);
}

static bool is_api(void)
{
	const zend_module_entry *core = zend_hash_str_find_ptr(&module_registry, ZEND_STRL("core"));

	if (!core) {
		return refuse("PHP's core module", "loaded", "missing");
	}
	return is_number("PHP's API number", ZEND_MODULE_API_NO, core->zend_api)
	       && is_number("PHP's thread safety", USING_ZTS, core->zts)
	       && is_number("PHP's debug mode", ZEND_DEBUG, core->zend_debug)
	       && is_number("the size of a module's entry", sizeof(zend_module_entry), core->size);
}

struct structure {
	const char *name; /* of the library's variable */
	size_t size;
};

/* Every libphp has these. */
static const struct structure structures[] = {
    {"executor_globals", sizeof(zend_executor_globals)}, {"compiler_globals", sizeof(zend_compiler_globals)},
    {"core_globals", sizeof(php_core_globals)},          {"sapi_globals", sizeof(sapi_globals_struct)},
    {"sapi_module", sizeof(sapi_module_struct)},         {"basic_globals", sizeof(php_basic_globals)},
    {"file_globals", sizeof(php_file_globals)},          {"output_globals", sizeof(zend_output_globals)},
    {"pcre_globals", sizeof(zend_pcre_globals)},         {"json_globals", sizeof(zend_json_globals)},
    {"random_globals", sizeof(zend_random_globals)},     {"ps_globals", sizeof(php_ps_globals)},
};

/* The size of a variable in the symbol table of its library. 0: no library has it. */
static size_t size_in_library(const char *name)
{
	void *address = dlsym(RTLD_DEFAULT, name);
	ElfW(Sym) *symbol = NULL;
	Dl_info about;

	if (!address || !dladdr1(address, &about, (void **)&symbol, RTLD_DL_SYMENT) || !symbol) {
		return 0;
	}
	return symbol->st_size;
}

static bool are_structures(void)
{
	char what[64];

	for (size_t i = 0; i < sizeof structures / sizeof *structures; i++) {
		snprintf(what, sizeof what, "the size of %s", structures[i].name);
		if (!is_number(what, (long)structures[i].size, (long)size_in_library(structures[i].name))) {
			return false;
		}
	}
	return true;
}

/* exits.c puts a handler in front of this instruction. */
static bool is_exit(void)
{
#ifdef ZEND_EXIT
	const char *name = zend_get_opcode_name(ZEND_EXIT);

	return (name && strcmp(name, "ZEND_EXIT") == 0)
	       || refuse("the instruction of exit()", "ZEND_EXIT", name ? name : "missing");
#else
	return zend_hash_str_exists(CG(function_table), ZEND_STRL("exit"))
	       || refuse("the function exit()", "there", "missing");
#endif
}

/* free_lists.c finds them by what ZendMM does. The search allocates memory, which is dropped, as PHP does after its
 * start. */
static bool are_free_lists(void)
{
	bool are_found = !is_zend_mm() || engine_free_lists();

	shutdown_memory_manager(true, false);
	return are_found || refuse("the heap's list of free slots", "at its beginning", "not found");
}

/* The supervisor tries again: an upgrade that is under way ends soon. */
static bool is_opcache(void)
{
	const zend_extension *opcache = zend_get_extension("Zend OPcache");
	const char *version = running_version();

	if (!opcache || !opcache->version || strcmp(opcache->version, version) == 0) {
		return true;
	}
	fprintf(stderr,
	        "reprise-php: opcache is of PHP %s, and %s is PHP %s\n"
	        "hint: if packages are being upgraded, reload when that is done; otherwise install both of one release "
	        "(libphp%d.%d-embed, php%d.%d-opcache)\n",
	        opcache->version, engine_libphp_path(), version, PHP_MAJOR_VERSION, PHP_MINOR_VERSION, PHP_MAJOR_VERSION,
	        PHP_MINOR_VERSION);
	return false;
}

bool engine_is_loadable(void)
{
	return engine_libphp_is_own() && are_structures();
}

bool engine_is_as_compiled(void)
{
	return is_version() && is_api() && is_exit() && is_opcache() && are_free_lists();
}
