/*
 * Entry of reprise-php: reads the settings that the supervisor gives in a memory file, and becomes the prototype of one
 * application. It is started as the application's user, never as root.
 *
 * Each folder may use those that stand below it here, and no other; a symbol begins with the name of its folder, one of
 * core with reprise_ (scripts/circles looks):
 *
 * main.c        arguments, service memory, then the prototype
 * prototype.c   one process per application: module start once, then forks classic workers, and the processes of lanes
 * classic/  worker/  snapshot/    the three modes: snapshot/template.c has a list
 * request/      one request, in every mode; PHP's callbacks, functions and settings
 * process/      what forks workers, and what all workers do alike
 * connections/  connections that stay open: connections/connections.h has a list
 * data/         the data cache: data/data.h has a list
 * engine/       what is private in PHP: engine/engine.h has a list
 * interpose/    functions of libc that take notes, or answer for the process: interpose/dirty.h has a list
 * core/         the state of a process, its log, its end
 *
 * Only single-threaded code runs here. setjmp and longjmp begin and end in C; ipc's functions are leaves, and an abort
 * is raised only after one has returned.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <php.h>

#include "arginfo.h"

#include "engine/compile.h"
#include "data/data.h"
#include "engine/direct_calls.h"
#include "engine/libphp.h"
#include "engine/probes.h"
#include "interpose/file_cache.h"
#include "process/forker.h"
#include "request/names.h"
#include "core/options.h"
#include "prototype.h"
#include "request/sapi.h"
#include "core/checks.h"
#include "interpose/interpose.h"
#include "snapshot/needs.h"
#include "core/snapshot_state.h"
#include "ipc.h"
#include "snapshot/serve.h"
#include "core/fork_hooks.h"
#include "core/state.h"
#include "interpose/traffic.h"
#include "core/worker_state.h"
#include "core/forker_state.h"

enum { OPT_NAME = 1, OPT_SETTINGS_FILE, OPT_UFFD, OPT_TRY_NEEDS, OPT_COMPILE, OPT_SETTINGS, OPT_SYMBOLS, OPT_VERSION };

#ifdef __SANITIZE_ADDRESS__
/* PHP's libraries free some memory only when the process ends, so leaks are not reported. AddressSanitizer handles no
 * signals: a crash ends the process as it does without AddressSanitizer. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0:abort_on_error=1:handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigfpe=0:handle_sigill="
	       "0:"
	       "use_sigaltstack=0:detect_stack_use_after_return=0";
}
#endif

static const struct option long_options[] = {
    {"settings-file", required_argument, NULL, OPT_SETTINGS_FILE},
    /* For people who list processes: the settings have it, too. */
    {"name", required_argument, NULL, OPT_NAME},
    {"userfaultfd", required_argument, NULL, OPT_UFFD}, /* with --try-needs */
    {"try-needs", no_argument, NULL, OPT_TRY_NEEDS},
    {"compile", required_argument, NULL, OPT_COMPILE},
    {"settings", no_argument, NULL, OPT_SETTINGS},
    {"symbols", no_argument, NULL, OPT_SYMBOLS},
    {"version", no_argument, NULL, OPT_VERSION},
    {NULL, 0, NULL, 0},
};

/* Debian's configuration of PHP-FPM, if it is installed: an application that moves here keeps its settings. */
static char profile[64], profile_ini[80], profile_scan[80];

static void choose_profile(void)
{
	snprintf(profile, sizeof profile, "/etc/php/%d.%d/fpm", PHP_MAJOR_VERSION, PHP_MINOR_VERSION);
	snprintf(profile_ini, sizeof profile_ini, "%s/php.ini", profile);
	snprintf(profile_scan, sizeof profile_scan, "%s/conf.d", profile);
	if (access(profile_ini, R_OK) == 0) {
		if (!reprise_options.php_ini) {
			reprise_options.php_ini = profile_ini;
		}
		reprise_options.scan_dir = profile_scan;
	}
}

static int number(const char *text)
{
	char *end;
	long value = strtol(text, &end, 10);

	return *text && !*end && value >= 0 && value < 1 << 20 ? (int)value : -1;
}

/* Memory that no rewind touches: the service stack, then the state of reprise-php. It is one mapping between two guard
 * pages, so the kernel merges it with no other mapping. */
static bool make_service_memory(void)
{
	struct service {
		struct worker_state worker;
		struct forker forker;
		struct data_state data;
		struct snapshot_state state;
	};
	size_t state = TO_PAGE(sizeof(struct service));
	size_t size = PAGE + SERVICE_STACK + state + PAGE;
	char *base = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (base == MAP_FAILED || mprotect(base + PAGE, size - 2 * PAGE, PROT_READ | PROT_WRITE) != 0) {
		return false;
	}
	struct service *service = (struct service *)(base + PAGE + SERVICE_STACK);
	reprise_service_stack = (unsigned char *)base + PAGE;
	reprise_worker = &service->worker;
	reprise_forker = &service->forker;
	reprise_data = &service->data;
	snapshot = &service->state;
	snapshot->image.own[OWN_SERVICE] = (struct range){(uintptr_t)base, (uintptr_t)base + size};
	return true;
}

/* For `reprise`: what a rewind needs, in a process of the user and with the rights that templates have. */
static int print_needs(void)
{
	char text[REPRISE_NEEDS];
	struct utsname kernel = {0};

	(void)prctl(PR_SET_DUMPABLE, 1);
	/* It fails for no kernel. */
	(void)uname(&kernel);
	/* The last line counts. The second trial may end this process. */
	bool is_said = printf("release %s\n", kernel.release) > 0;
	for (int i = 0; i < 2; i++) {
		(void)snapshot_try_needs(i == 1, text, sizeof text);
		is_said = is_said && printf("needs %s\n", text) > 0 && fflush(stdout) == 0;
	}
	return is_said ? 0 : ipc_Exit_Internal;
}

/* With the settings of the application, but for what would keep opcache from writing all of it to that directory; and
 * without the passes (1 and 8) that replace calls of ini_get(), extension_loaded() and function_exists() by what they
 * return here: a node may have other settings and extensions. */
static int compile_to(const char *directory)
{
	static const char *const settings[] = {
	    "opcache.enable=1",      "opcache.file_cache_only=1", "opcache.file_update_protection=0",
	    "opcache.restrict_api=", "opcache.preload=",          "opcache.optimization_level=0x7FFEBF7E",
	    "opcache.jit=disable",   "opcache.max_file_size=0",   "memory_limit=-1",
	    "auto_globals_jit=1"};
	char pair[4096];
	int size = snprintf(pair, sizeof pair, "opcache.file_cache=%s", directory);

	if (size < 0 || (size_t)size >= sizeof pair || !reprise_add_ini(pair)) {
		return ipc_Exit_Usage;
	}
	for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
		if (!reprise_add_ini(settings[i])) {
			return ipc_Exit_Usage;
		}
	}
	return request_sapi_load() ? engine_compile_run() : ipc_Exit_NotBooted;
}

int reprise_php_main(int argc, char **argv)
{
	bool asks_settings = false, asks_symbols = false, tries_needs = false;
	const char *compiles_to = NULL;
	int option;

#if !defined(__x86_64__)
	raw_page = (uintptr_t)sysconf(_SC_PAGESIZE);
#endif
	if (!engine_is_loadable()) {
		return ipc_Exit_NotBooted;
	}
	reprise_fork_hooks = &data_fork_hooks;
	request_sapi_offer(reprise_functions, snapshot_boot_output);
	interpose_memory();
	interpose_process();
	interpose_files();
	interpose_traffic();
	/* libc's heap grows by the program break alone, and never shrinks. libc calls itself when it maps and unmaps
	 * memory, and dirty_memory.c would not see that. */
	mallopt(M_MMAP_MAX, 0);
	mallopt(M_TRIM_THRESHOLD, -1);
	mallopt(M_TOP_PAD, 1 << 20);
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (option) {
		case OPT_NAME: break;
		case OPT_SETTINGS_FILE:
			if (!reprise_read_settings(number(optarg))) {
				return ipc_Exit_Usage;
			}
			break;
		case OPT_UFFD: reprise_options.userfaultfd = number(optarg); break;
		case OPT_TRY_NEEDS: tries_needs = true; break;
		case OPT_COMPILE: compiles_to = optarg; break;
		case OPT_SETTINGS: asks_settings = true; break;
		case OPT_SYMBOLS: asks_settings = asks_symbols = true; break;
		case OPT_VERSION:
			choose_profile();
			printf("reprise-php %s\nphp %s\nbuilt %s\nlibphp %s\nini %s\n", REPRISE_VERSION, engine_libphp_version(),
			       PHP_VERSION, engine_libphp_path(), reprise_options.php_ini ? profile : "libphp's own");
#ifdef REPRISE_SANITIZERS
			puts("sanitizers " REPRISE_SANITIZERS);
#endif
			return 0;
		default: return ipc_Exit_Usage;
		}
	}
	if (tries_needs) {
		return print_needs();
	}
	bool is_started = reprise_options.control >= 0 && reprise_options.lifeline >= 0;
	if (optind != argc || (!is_started && !asks_settings && !compiles_to)) {
		fputs("reprise-php: reprise starts this program; it is not for the command line\nhint: reprise serve DIR\n",
		      stderr);
		return ipc_Exit_Usage;
	}
	if (getuid() == 0 || geteuid() == 0 || getgid() == 0) {
		fputs("reprise-php: PHP does not run as root\n", stderr);
		return ipc_Exit_Permission;
	}
	if (!make_service_memory()) {
		fputs("reprise-php: there is no memory\n", stderr);
		return ipc_Exit_Internal;
	}
	if (reprise_options.php_ini && access(reprise_options.php_ini, R_OK) != 0) {
		fprintf(stderr, "reprise-php: php.ini %s cannot be read: %s\n", reprise_options.php_ini, strerror(errno));
		return ipc_Exit_NotBooted;
	}
	choose_profile();
	if (asks_settings) {
		/* Only a question: no code of the application may run. */
		if (!reprise_add_ini("opcache.preload=") || !request_sapi_load()) {
			return ipc_Exit_NotBooted;
		}
		request_print_settings(asks_symbols);
		_exit(0);
	}
	if (compiles_to) {
		return compile_to(compiles_to);
	}
	if (reprise_options.file_cache && !interpose_file_cache_use(reprise_options.file_cache)) {
		fprintf(stderr, "reprise-php: the directory of compiled code cannot be used: %s\n", reprise_options.file_cache);
		return ipc_Exit_NotBooted;
	}
	snapshot_plant_fault();
	/* As under PHP-FPM, also for the programs that PHP starts. */
	signal(SIGPIPE, SIG_IGN);
	/* What a library prints is a line of the log when it has printed it, before its memory is rewound. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	engine_bind_libphp();
	return reprise_prototype_run();
}
