/*
 * The libphp that the loader has found, compared with the one that reprise-php was built with before any of its code
 * runs. The executable names libphp by its path (build/import_library.rs), but that file may be replaced, and
 * LD_PRELOAD may name another one.
 *
 * Another version may lack functions that reprise-php uses. So all references to libphp but one are weak: the loader
 * leaves those that it does not find empty, and this file says so in words.
 */
#define _GNU_SOURCE
#include <php.h>
#include <SAPI.h>

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "libphp.h"

/* Every libphp has this header of responses in its constants (main/SAPI.h, SAPI_PHP_VERSION_HEADER). */
#define VERSION_HEADER "X-Powered-By: PHP/"

const char *engine_libphp_path(void)
{
	Dl_info about;

	return dladdr((void *)(uintptr_t)sapi_startup, &about) && about.dli_fname ? about.dli_fname : "libphp";
}

bool engine_libphp_is(const struct dl_phdr_info *library)
{
	uintptr_t wanted = (uintptr_t)sapi_startup;

	for (int i = 0; i < library->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &library->dlpi_phdr[i];
		if (part->p_type == PT_LOAD && wanted - library->dlpi_addr - part->p_vaddr < part->p_memsz) {
			return true;
		}
	}
	return false;
}

/* Looks for the header in libphp's constants. */
static int find_header(struct dl_phdr_info *library, size_t size, void *found)
{
	bool is_libphp = engine_libphp_is(library);

	(void)size;
	for (int i = 0; is_libphp && i < library->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &library->dlpi_phdr[i];
		const char *begin = (const char *)(library->dlpi_addr + part->p_vaddr);
		if (part->p_type != PT_LOAD || !(part->p_flags & PF_R) || (part->p_flags & PF_W)) {
			continue;
		}
		const char *header = memmem(begin, part->p_filesz, VERSION_HEADER, sizeof VERSION_HEADER - 1);
		if (header) {
			*(const char **)found = header + sizeof VERSION_HEADER - 1;
			return 1;
		}
	}
	return is_libphp;
}

const char *engine_libphp_version(void)
{
	static const char *version;

	/* PHP 8.2 has no function that says it before the start. */
	if (!version) {
		dl_iterate_phdr(find_header, &version);
	}
	return version ? version : "";
}

/* Patch releases of a minor version are alike. */
static bool is_minor(const char *version)
{
	static const char compiled[] = PHP_VERSION;
	size_t length = (size_t)(strchr(strchr(compiled, '.') + 1, '.') - compiled) + 1;

	return strncmp(version, compiled, length) == 0;
}

/* A symbol that reprise-php uses and no library has. The symbols that an executable uses come before those that it
 * defines, and its hash table says where these begin. */
static const char *missing_symbol(void)
{
	const ElfW(Sym) *symbols = NULL;
	const char *names = NULL;
	const uint32_t *hash = NULL;

	for (const ElfW(Dyn) *entry = _DYNAMIC; entry->d_tag != DT_NULL; entry++) {
		switch (entry->d_tag) {
		case DT_SYMTAB: symbols = (const ElfW(Sym) *)entry->d_un.d_ptr; break;
		case DT_STRTAB: names = (const char *)entry->d_un.d_ptr; break;
		case DT_GNU_HASH: hash = (const uint32_t *)entry->d_un.d_ptr; break;
		}
	}
	for (uint32_t i = 1; symbols && names && hash && i < hash[1]; i++) {
		const char *name = names + symbols[i].st_name;
		/* The linker's own weak symbols, which no library has. */
		bool is_theirs = strncmp(name, "_ITM_", 5) == 0 || strcmp(name, "__gmon_start__") == 0;
		if (symbols[i].st_shndx == SHN_UNDEF && !is_theirs && !dlsym(RTLD_DEFAULT, name)) {
			return name;
		}
	}
	return NULL;
}

bool engine_libphp_is_own(void)
{
	const char *found = engine_libphp_version();

	if (!is_minor(found)) {
		fprintf(
		    stderr,
		    "reprise-php: %s is PHP %s, and this reprise-php was built for PHP %d.%d (with %s)\n"
		    "hint: install libphp%d.%d-embed; the reprise-php of another version runs applications with that version\n",
		    engine_libphp_path(), *found ? found : "of a version that it does not say", PHP_MAJOR_VERSION,
		    PHP_MINOR_VERSION, PHP_VERSION, PHP_MAJOR_VERSION, PHP_MINOR_VERSION);
		return false;
	}
	const char *missing = missing_symbol();
	if (missing) {
		fprintf(
		    stderr,
		    "reprise-php: %s has no %s, which libphp %s had when reprise-php was built\n"
		    "hint: install the libphp%d.%d-embed of the distribution (without thread safety and debugging), or build "
		    "reprise-php with the headers of the one that is installed\n",
		    engine_libphp_path(), missing, PHP_VERSION, PHP_MAJOR_VERSION, PHP_MINOR_VERSION);
		return false;
	}
	return true;
}
