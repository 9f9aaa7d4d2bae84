/*
 * The phar that an application's scripts are in. The supervisor has checked its signature and gives a sealed copy of
 * it, by a descriptor. Whoever opens the phar's path for reading gets the copy. So a generation reads the same bytes
 * from its start to its end, and only bytes that were checked, whatever becomes of the file meanwhile. The copy is
 * signed by a hash. PHP refuses that if a public key lies beside the phar, so it does not find that file; whether the
 * phar has been signed by that key was checked too.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "options.h"
#include "pinned.h"

static const char scheme[] = "phar://";
/* The path by which the copy is opened anew: each opening has an offset of its own. */
static char copy[32];
/* The public key beside the phar. */
static char key[4096];
/* Leads nowhere. */
static const char nowhere[] = "/proc/self/fd/none";

void reprise_pin_phar(int descriptor)
{
	reprise_options.phar = descriptor;
	snprintf(copy, sizeof copy, "/proc/self/fd/%d", descriptor);
	snprintf(key, sizeof key, "%s.pubkey", reprise_options.phar_path);
}

const char *reprise_pinned_stat(const char *path)
{
	return copy[0] && path && strcmp(path, key) == 0 ? nowhere : path;
}

const char *reprise_pinned(const char *path, int flags)
{
	bool reads = (flags & O_ACCMODE) == O_RDONLY && !(flags & (O_PATH | O_DIRECTORY | O_TRUNC));

	return copy[0] && reads && path && strcmp(path, reprise_options.phar_path) == 0 ? copy : reprise_pinned_stat(path);
}

bool reprise_is_pinned_script(const char *script)
{
	if (!reprise_options.phar_path) {
		return false;
	}
	if (strncmp(script, scheme, sizeof scheme - 1) == 0) {
		script += sizeof scheme - 1;
	}
	size_t size = strlen(reprise_options.phar_path);
	return strncmp(script, reprise_options.phar_path, size) == 0 && (script[size] == '/' || script[size] == 0);
}

const char *reprise_script_on_disk(const char *script)
{
	return reprise_is_pinned_script(script) ? reprise_options.phar_path : script;
}
