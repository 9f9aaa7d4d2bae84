/*
 * The files of this directory know PHP's private structures. No other file does, so another version of PHP changes this
 * directory alone.
 *
 * Private is what a version of PHP may lay out differently:
 * - PHP's globals (EG, CG, PG, BG, OG, FG and those of extensions), but for SG, which is the interface of a SAPI;
 * - fields of hash tables, objects, resources, streams, functions, call frames, settings and modules;
 * - the heap of ZendMM, and words of opcache.
 *
 * What PHP's headers declare for extensions and SAPIs is public: functions (ZEND_API, PHPAPI), macros for values and
 * for walking arrays, hooks such as zend_compile_file, and the structures that an extension fills: sapi_module_struct,
 * zend_module_entry of its own, sapi_header_struct. scripts/private fails on a private name outside of this directory.
 *
 * probes.c             PHP is what this was compiled for, or reprise-php does not start
 * boot_state.c         settings and environment of a worker script's boot
 * captured.c           what the application holds of the boot's request
 * direct_calls.c       where libphp's code is, whose calls of itself are bound directly
 * error_page.c         the page of a fatal error under development
 * compile.c            compiles scripts into a file cache of opcache
 * exceptions.c         exceptions that no code has caught
 * exits.c              whether a request has called exit()
 * filter.c             ext/filter's copy of $_SERVER
 * frames.c             call frames, of this process and of others
 * free_lists.c         ZendMM's lists of free slots
 * function_state.c     what PHP's functions remember beyond a call
 * random.c, random_libraries.c, gmp_random.c, random_state.h  generators of random numbers, seeded for each request
 * handlers.c           handlers of errors and exceptions
 * heap.c               ZendMM's heap: its free pages
 * included_paths.c     paths of scripts, as opcache gets them
 * ini.c                the table of settings
 * interrupt.h          a call before PHP's next step
 * last_error.h         the last error that PHP has reported
 * late_code.c          whether code runs when a request of a worker script ends
 * libphp.c             which libphp the loader has found
 * modules.c            which modules see requests begin and end, and which leave that to a rewind
 * objects.c            the stores of objects and resources
 * oom.h                exhausted memory
 * opcache_clock.c      the time that opcache keeps
 * opcache_status.c     opcache_get_status(), and requests for opcache alone
 * output.c             the output layer
 * patterns.c           compiled regular expressions
 * pure.c               whether a callable can be a pure function, and where it is declared
 * request_state.h      the running request: exit status, connection, time limit
 * session.c            ext/session
 * shutdown_functions.c shutdown functions of a worker script's boot
 * step.h               a step of a request's end
 * streams.c            open streams
 * superglobals.c       $_GET and the like
 * wrap.c               handlers in front of PHP's functions
 */
#ifndef REPRISE_ENGINE_H
#define REPRISE_ENGINE_H

#include <php.h>

#ifdef ZTS
#error "reprise-php is for a libphp without thread safety (php-config --configure-options: --enable-zts)"
#endif

_Static_assert(PHP_VERSION_ID >= 80200, "engine/ knows PHP from 8.2 on");
_Static_assert(sizeof(zval) == 16, "a zval is two words");
_Static_assert(offsetof(zend_execute_data, opline) == 0, "a frame begins with its opline");

#endif
