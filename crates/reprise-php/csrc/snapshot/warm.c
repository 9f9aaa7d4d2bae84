/*
 * What libraries make at their first use, made before the snapshot: otherwise each request makes it anew, because a
 * rewind removes it.
 *
 * OpenSSL loads its providers and looks up each algorithm at the first use, which costs a request a millisecond. One
 * text is encrypted, and one context of TLS clients is made, which looks up what connections need. Nothing is drawn
 * from OpenSSL's own generator: it takes all random bytes from the kernel by now (random_libraries.c).
 *
 * libc maps the files of a locale when it is set, and unmaps them when PHP sets the locale back at the end of the
 * request. A locale of which libc has an object stays mapped. So the template has one of the boot's locale, and one of
 * each locale that requests set again and again (learn.c). The objects are never freed.
 *
 * PHP and its other libraries have no such state of that size. Regular expressions are learned (learn.c), and the file
 * of the time zone is mapped at the snapshot (serve.c).
 */
#define _GNU_SOURCE
#include <php.h>

#include <ctype.h>
#include <dlfcn.h>
#include <locale.h>
#include <string.h>

#include "../core/snapshot_state.h"
#include "warm.h"

static void encrypt(void)
{
	zend_function *function = zend_fetch_function_str(ZEND_STRL("openssl_encrypt"));
	zval arguments[5], result;

	/* disable_functions removes a function, and the application may have one of its own. */
	if (!function || function->type != ZEND_INTERNAL_FUNCTION) {
		return;
	}
	ZVAL_EMPTY_STRING(&arguments[0]);
	ZVAL_STRINGL(&arguments[1], "aes-256-cbc", 11);
	ZVAL_STRINGL(&arguments[2], "0123456789abcdef0123456789abcdef", 32);
	ZVAL_LONG(&arguments[3], 1); /* OPENSSL_RAW_DATA */
	ZVAL_STRINGL(&arguments[4], "0123456789abcdef", 16);
	zend_call_known_function(function, NULL, NULL, &result, 5, arguments, NULL);
	zval_ptr_dtor(&result);
	for (size_t i = 0; i < 5; i++) {
		zval_ptr_dtor(&arguments[i]);
	}
}

static void make_tls_context(void)
{
	const void *(*method)(void);
	void *(*make)(const void *);
	void (*drop)(void *), (*forget_errors)(void);

	*(void **)&method = dlsym(RTLD_DEFAULT, "TLS_client_method");
	*(void **)&make = dlsym(RTLD_DEFAULT, "SSL_CTX_new");
	*(void **)&drop = dlsym(RTLD_DEFAULT, "SSL_CTX_free");
	*(void **)&forget_errors = dlsym(RTLD_DEFAULT, "ERR_clear_error");
	if (method && make && drop && forget_errors) {
		drop(make(method()));
		forget_errors();
	}
}

void snapshot_warm_libraries(void)
{
	if (zend_get_module_started("openssl") == SUCCESS) {
		encrypt();
		make_tls_context();
	}
}

void snapshot_hold_locale(void)
{
	const char *name = setlocale(LC_ALL, NULL);

	snapshot->learned.has_loose_locale = !name || !newlocale(LC_ALL_MASK, name, NULL);
}

/* The name lies in memory to which clones write: it is copied before it is checked. It may name no path. */
bool snapshot_learn_locale(const char *shared)
{
	char name[REPRISE_LOCALE];

	memcpy(name, shared, sizeof name);
	size_t size = strnlen(name, sizeof name);
	for (size_t i = 0; i < size; i++) {
		if (!isalnum((unsigned char)name[i]) && !strchr("_-.@", name[i])) {
			return false;
		}
	}
	return size > 0 && size < sizeof name && newlocale(LC_ALL_MASK, name, NULL);
}
