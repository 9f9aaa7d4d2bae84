/*
 * Generators of libraries that PHP's extensions use. docs/guides/snapshot.md lists all generators. All of this runs on
 * PHP's stack.
 */
#define _GNU_SOURCE
#include <php.h>

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/random.h>

#include "random.h"
#include "random_libraries.h"

/* OpenSSL takes a generator of the application. Ours has no state: all bytes are the kernel's. The structure is as in
 * OpenSSL's rand.h. */
struct rand_meth_st {
	int (*seed)(const void *, int);
	int (*bytes)(unsigned char *, int);
	void (*cleanup)(void);
	int (*add)(const void *, int, double);
	int (*pseudorand)(unsigned char *, int);
	int (*status)(void);
};

static int take_bytes(unsigned char *bytes, int size)
{
	int have = 0;

	while (have < size) {
		ssize_t got = getrandom(bytes + have, (size_t)(size - have), 0);
		if (got < 0 && errno != EINTR) {
			return 0;
		}
		have += got > 0 ? (int)got : 0;
	}
	return 1;
}

static int ignore_seed(const void *bytes, int size)
{
	return 1;
}

static int ignore_entropy(const void *bytes, int size, double entropy)
{
	return 1;
}

static void no_cleanup(void)
{
}

static int is_ready(void)
{
	return 1;
}

static const struct rand_meth_st kernel_method = {
    .seed = ignore_seed,
    .bytes = take_bytes,
    .cleanup = no_cleanup,
    .add = ignore_entropy,
    .pseudorand = take_bytes,
    .status = is_ready,
};

static void replace_openssl(void)
{
	int (*set_method)(const struct rand_meth_st *);

	*(void **)&set_method = dlsym(RTLD_DEFAULT, "RAND_set_rand_method");
	if (set_method) {
		set_method(&kernel_method);
	}
}

/* A function of a library, if any library or extension has loaded it; otherwise NULL. */
static void *loaded_function(const char *library, const char *name)
{
	void *function = dlsym(RTLD_DEFAULT, name);

	if (!function) {
		void *loaded = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
		if (loaded) {
			function = dlsym(loaded, name);
			dlclose(loaded);
		}
	}
	return function;
}

/* SQLite has one generator for the process, and seeds it from the kernel when it is first drawn from. Without a seed at
 * the snapshot, each request draws one. Without a seed when workers are forked, each worker draws one. */
static void reset_sqlite(void)
{
	void (*randomness)(int, void *);

	*(void **)&randomness = loaded_function("libsqlite3.so.0", "sqlite3_randomness");
	if (randomness) {
		randomness(0, NULL);
	}
}

static struct {
	zend_ulong before;   /* hash of its writable memory when the template began; 0: it was not loaded */
	zend_ulong after;    /* the same at the snapshot */
	bool in_thread;      /* whether its memory of the thread has changed */
	void (*renew)(void); /* NULL: nobody has used GnuTLS before the snapshot */
} gnutls;

static bool is_named(const struct dl_phdr_info *info, const char *name)
{
	const char *slash = strrchr(info->dlpi_name, '/');

	return strncmp(slash ? slash + 1 : info->dlpi_name, name, strlen(name)) == 0;
}

/* The memory that a library has in each thread, as it was when this thread began. */
static const ElfW(Phdr) * thread_memory(const struct dl_phdr_info *info)
{
	for (size_t i = 0; info->dlpi_tls_data && i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type == PT_TLS) {
			return &info->dlpi_phdr[i];
		}
	}
	return NULL;
}

static bool has_thread_memory_changed(const struct dl_phdr_info *info)
{
	const ElfW(Phdr) *part = thread_memory(info);
	const char *now = info->dlpi_tls_data;

	if (!part || memcmp(now, (const char *)info->dlpi_addr + part->p_vaddr, part->p_filesz) != 0) {
		return part;
	}
	for (size_t i = part->p_filesz; i < part->p_memsz; i++) {
		if (now[i]) {
			return true;
		}
	}
	return false;
}

/*
 * GnuTLS sets its generator up at the first draw of a thread, and notes that in its own writable memory or, as version
 * 3.8 does, in its memory of the thread. If the former has changed since the template began, or the latter since the
 * thread began, the generator may have been used. If they have changed for another reason, requests seed it without
 * need.
 */
static zend_ulong writable_memory(const struct dl_phdr_info *info)
{
	zend_ulong hash = 1;

	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		if (part->p_type == PT_LOAD && (part->p_flags & PF_W)) {
			hash = hash * 31 + zend_hash_func((const char *)info->dlpi_addr + part->p_vaddr, part->p_memsz);
		}
	}
	return hash;
}

static int look_at_gnutls(struct dl_phdr_info *info, size_t size, void *hash)
{
	if (!is_named(info, "libgnutls.so.")) {
		return 0;
	}
	*(zend_ulong *)hash = writable_memory(info);
	gnutls.in_thread = has_thread_memory_changed(info);
	return 1;
}

/* libuuid keeps a clock sequence for time-based ids, in the memory of the thread. Clones with the same sequence would
 * make the same id in the same microsecond. With its memory as it was when the thread began, the next id draws a new
 * sequence. */
static int reset_uuid(struct dl_phdr_info *info, size_t size, void *unused)
{
	const ElfW(Phdr) *part = is_named(info, "libuuid.so.") ? thread_memory(info) : NULL;

	if (!part) {
		return 0;
	}
	memcpy(info->dlpi_tls_data, (const char *)info->dlpi_addr + part->p_vaddr, part->p_filesz);
	memset((char *)info->dlpi_tls_data + part->p_filesz, 0, part->p_memsz - part->p_filesz);
	return 1;
}

void engine_random_libraries_forget(void)
{
	reset_sqlite();
}

void engine_random_libraries_start(void)
{
	dl_iterate_phdr(look_at_gnutls, &gnutls.before);
	replace_openssl();
}

void engine_random_libraries_prepare(void)
{
	reset_sqlite();
	dl_iterate_phdr(reset_uuid, NULL);
	dl_iterate_phdr(look_at_gnutls, &gnutls.after);
	if (gnutls.after != gnutls.before || gnutls.in_thread || engine_random_is_preloaded()) {
		*(void **)&gnutls.renew = loaded_function("libgnutls.so.30", "gnutls_rnd_refresh");
	}
}

void engine_random_libraries_renew(void)
{
	if (gnutls.renew) {
		gnutls.renew();
	}
}

bool engine_random_is_preloaded(void)
{
	static const char *const settings[] = {"opcache.preload", "ffi.preload"};

	for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
		const char *files = zend_ini_string(settings[i], strlen(settings[i]), 0);
		if (files && *files) {
			return true;
		}
	}
	return false;
}
