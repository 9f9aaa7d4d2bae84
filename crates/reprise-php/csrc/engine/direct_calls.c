/*
 * Where the loader has put libphp, for crates/direct-calls.
 *
 * The loader has filled all slots by now: reprise-php is linked with `-z now`, and slots outside of what the loader has
 * made read-only are not looked at. A slot that leads to an interposed function of reprise-php leads out of libphp, and
 * stays. The process has one thread.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "direct_calls.h"
#include "direct_calls_ffi.h"
#include "../core/log.h"
#include "libphp.h"

static struct direct_calls_part part_of(const struct dl_phdr_info *library, const ElfW(Phdr) * part)
{
	uintptr_t begin = library->dlpi_addr + part->p_vaddr;

	return (struct direct_calls_part){begin, begin + part->p_memsz};
}

/* glibc has added the base to the addresses of libphp's dynamic section. */
static void add_relocations(struct direct_calls_library *to, const ElfW(Dyn) * entry)
{
	size_t sizes[2] = {0};

	for (; entry->d_tag != DT_NULL; entry++) {
		switch (entry->d_tag) {
		case DT_RELA: to->relocations[0].begin = entry->d_un.d_ptr; break;
		case DT_RELASZ: sizes[0] = entry->d_un.d_val; break;
		case DT_JMPREL: to->relocations[1].begin = entry->d_un.d_ptr; break;
		case DT_PLTRELSZ: sizes[1] = entry->d_un.d_val; break;
		default: break;
		}
	}
	for (int i = 0; i < 2; i++) {
		struct direct_calls_part *table = &to->relocations[i];
		table->end = table->begin + sizes[i];
		/* Those of a libc that adds nothing are outside. */
		if (table->begin < to->whole.begin || table->end > to->whole.end) {
			*table = (struct direct_calls_part){0};
		}
	}
}

static int describe(struct dl_phdr_info *library, size_t size, void *to)
{
	struct direct_calls_library *said = to;
	const ElfW(Dyn) *dynamic = NULL;

	(void)size;
	if (!engine_libphp_is(library)) {
		return 0;
	}
	said->base = library->dlpi_addr;
	for (int i = 0; i < library->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &library->dlpi_phdr[i];
		struct direct_calls_part there = part_of(library, part);
		switch (part->p_type) {
		case PT_LOAD:
			said->whole.begin = said->whole.begin ? said->whole.begin : there.begin;
			said->whole.end = there.end;
			if (part->p_flags & PF_X) {
				said->code = there;
			}
			break;
		case PT_GNU_EH_FRAME: said->frames = there.begin; break;
		case PT_GNU_RELRO: said->fixed = there; break;
		case PT_DYNAMIC: dynamic = (const ElfW(Dyn) *)there.begin; break;
		default: break;
		}
	}
	for (int i = 0; i < library->dlpi_phnum; i++) {
		struct direct_calls_part there = part_of(library, &library->dlpi_phdr[i]);
		if (library->dlpi_phdr[i].p_type == PT_LOAD && said->frames - there.begin < there.end - there.begin) {
			said->tables = there;
		}
	}
	if (dynamic) {
		add_relocations(said, dynamic);
	}
	return 1;
}

/* Where memory must not be writable and executable at once, the call is refused. */
static int32_t protect(const struct direct_calls_part *code, bool is_writable)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t begin = code->begin & ~(page - 1), end = (code->end + page - 1) & ~(page - 1);

	return mprotect((void *)begin, end - begin, PROT_READ | PROT_EXEC | (is_writable ? PROT_WRITE : 0)) == 0 ? 0
	                                                                                                         : errno;
}

static uint64_t bound_kib;

uint64_t engine_bound_kib(void)
{
	return bound_kib;
}

void engine_bind_libphp(void)
{
	struct direct_calls_library libphp = {0};

	if (dl_iterate_phdr(describe, &libphp) == 0 || !libphp.tables.begin) {
		return;
	}
	int64_t pages = direct_calls_bind(&libphp, protect);
	if (pages >= 0) {
		bound_kib = (uint64_t)pages * 4;
	} else {
		reprise_log_line("notice", "calls within libphp are not bound directly: its code cannot be written to: %s",
		                 strerror((int)-pages));
	}
}
