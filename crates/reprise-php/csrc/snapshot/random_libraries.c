/*
 * Libraries that keep what they draw from where no function of theirs puts it back; docs/guides/snapshot->md has the
 * list of all. On PHP's stack.
 */
#define _GNU_SOURCE
#include <php.h>

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "random.h"
#include "random_libraries.h"

static struct {
	zend_ulong before;   /* its writable memory when the template began; 0: it was not loaded */
	zend_ulong after;    /* and at the snapshot */
	void (*renew)(void); /* NULL: the boot has not used it */
} gnutls;

static bool is_named(const struct dl_phdr_info *info, const char *name)
{
	const char *slash = strrchr(info->dlpi_name, '/');

	return strncmp(slash ? slash + 1 : info->dlpi_name, name, strlen(name)) == 0;
}

/* GnuTLS sets a generator up when it is first drawn from, and notes that in its own writable memory. So whether the
 * boot has used it is told by that memory; if it has changed for another reason, requests pay for what they do not
 * need. */
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
	return 1;
}

/* libuuid keeps the clock sequence of time-based ids for each thread: clones that share it make the same id in the same
 * microsecond. With its memory as it was when the thread began, the next id draws one. */
static int reset_uuid(struct dl_phdr_info *info, size_t size, void *unused)
{
	if (!is_named(info, "libuuid.so.") || !info->dlpi_tls_data) {
		return 0;
	}
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		if (part->p_type == PT_TLS) {
			memcpy(info->dlpi_tls_data, (const char *)info->dlpi_addr + part->p_vaddr, part->p_filesz);
			memset((char *)info->dlpi_tls_data + part->p_filesz, 0, part->p_memsz - part->p_filesz);
		}
	}
	return 1;
}

/* In a new template. */
void reprise_random_libraries_start(void)
{
	dl_iterate_phdr(look_at_gnutls, &gnutls.before);
}

/* At the snapshot. */
void reprise_random_libraries_prepare(void)
{
	dl_iterate_phdr(reset_uuid, NULL);
	dl_iterate_phdr(look_at_gnutls, &gnutls.after);
	if (gnutls.after != gnutls.before || reprise_random_is_preloaded()) {
		*(void **)&gnutls.renew = reprise_loaded_function("libgnutls.so.30", "gnutls_rnd_refresh");
	}
}

/* For each request. */
void reprise_random_libraries_renew(void)
{
	if (gnutls.renew) {
		gnutls.renew();
	}
}
