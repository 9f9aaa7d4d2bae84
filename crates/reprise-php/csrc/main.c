/*
 * Entry of reprise-php: reads the arguments the supervisor gave (they are no interface for people) and becomes the
 * prototype of one application. It is started as the application's user, never as root.
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
#include <sys/stat.h>
#include <unistd.h>

#include <php_version.h>

#include "snapshot/checks.h"
#include "snapshot/snapshot.h"

struct reprise_options reprise_options = {.name = "", .control = -1, .lifeline = -1, .userfaultfd = -1};
struct worker_state *reprise_worker_state;
struct forker *reprise_forker;
unsigned char *reprise_service_stack;

enum {
	OPT_NAME = 1,
	OPT_CONTROL,
	OPT_LIFELINE,
	OPT_INI,
	OPT_SETTINGS_FILE,
	OPT_ISOLATION,
	OPT_AUDIT,
	OPT_MAX_REQUESTS,
	OPT_HOSTS,
	OPT_MEASURE,
	OPT_GENERATION,
	OPT_MAX_AGE,
	OPT_MAX_MEMORY,
	OPT_UFFD,
	OPT_WATCH,
	OPT_WATCH_EXCEPT,
	OPT_PHP_INI,
	OPT_SETTINGS,
	OPT_VERSION
};

#ifdef __SANITIZE_ADDRESS__
/* PHP's libraries keep memory until the process ends; what is looked for is misuse. Crashes end as without. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0:abort_on_error=1:handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigfpe=0:handle_sigill="
	       "0:"
	       "use_sigaltstack=0:detect_stack_use_after_return=0";
}
#endif

static const struct option long_options[] = {
    {"name", required_argument, NULL, OPT_NAME},
    {"generation", required_argument, NULL, OPT_GENERATION},
    {"control", required_argument, NULL, OPT_CONTROL},
    {"lifeline", required_argument, NULL, OPT_LIFELINE},
    {"ini", required_argument, NULL, OPT_INI},
    {"settings-file", required_argument, NULL, OPT_SETTINGS_FILE},
    {"isolation", required_argument, NULL, OPT_ISOLATION},
    {"audit", no_argument, NULL, OPT_AUDIT},
    {"max-requests", required_argument, NULL, OPT_MAX_REQUESTS},
    {"max-age", required_argument, NULL, OPT_MAX_AGE},
    {"max-memory", required_argument, NULL, OPT_MAX_MEMORY},
    {"hosts", required_argument, NULL, OPT_HOSTS},
    {"measure", no_argument, NULL, OPT_MEASURE},
    {"watch", no_argument, NULL, OPT_WATCH},
    {"watch-except", required_argument, NULL, OPT_WATCH_EXCEPT},
    {"userfaultfd", required_argument, NULL, OPT_UFFD},
    {"php-ini", required_argument, NULL, OPT_PHP_INI},
    {"settings", no_argument, NULL, OPT_SETTINGS},
    {"version", no_argument, NULL, OPT_VERSION},
    {NULL, 0, NULL, 0},
};

/* An expression of error levels, E_ALL & ~E_DEPRECATED, as php.ini and FPM's pool files have it. */
static bool is_levels(const char *at)
{
	bool names_one = false;

	for (;;) {
		at += strspn(at, " ~!");
		size_t word = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
		if (word == 0) {
			return false;
		}
		names_one = names_one || strncmp(at, "E_", 2) == 0;
		at += word + strspn(at + word, " ");
		if (*at == 0) {
			return names_one;
		}
		if (!strchr("&|^", *at++)) {
			return false;
		}
	}
}

/* Appends name="value" to the ini text, quoted so that every value arrives as it was written; error levels are what PHP
 * makes of them. */
static bool add_ini(const char *pair)
{
	const char *equals = strchr(pair, '=');
	size_t old = reprise_options.ini ? strlen(reprise_options.ini) : 0;
	/* Each byte at most doubled, quotes, line end. */
	char *text = realloc(reprise_options.ini, old + 2 * strlen(pair) + 8);

	if (!text) {
		return false;
	}
	reprise_options.ini = text;
	if (!equals || equals == pair || strchr(pair, '\n')) {
		fprintf(stderr, "reprise-php: an ini setting wants NAME=VALUE on one line: %s\n", pair);
		return false;
	}
	char *at = text + old;
	memcpy(at, pair, equals - pair + 1);
	at += equals - pair + 1;
	if (is_levels(equals + 1)) {
		sprintf(at, "%s\n", equals + 1);
		return true;
	}
	*at++ = '"';
	for (const char *from = equals + 1; *from; from++) {
		if (*from == '"' || *from == '\\' || *from == '$') {
			*at++ = '\\';
		}
		*at++ = *from;
	}
	memcpy(at, "\"\n", 3);
	return true;
}

static bool append(const char ***list, size_t *count, const char *text)
{
	const char **grown = realloc(*list, (*count + 1) * sizeof **list);

	if (!grown) {
		return false;
	}
	grown[(*count)++] = text;
	*list = grown;
	return true;
}

static bool lock_ini(const char *pair)
{
	return append(&reprise_options.locked, &reprise_options.locked_count, pair);
}

/* One setting, OPTION=VALUE. The text stays. */
static bool take_setting(const char *setting)
{
	static const char ini[] = "ini=", admin[] = "admin-ini=", warmup[] = "warmup=";

	if (strncmp(setting, ini, sizeof ini - 1) == 0) {
		setting += sizeof ini - 1;
		return add_ini(setting) && append(&reprise_options.set, &reprise_options.set_count, setting);
	}
	if (strncmp(setting, admin, sizeof admin - 1) == 0) {
		return add_ini(setting + sizeof admin - 1) && lock_ini(setting + sizeof admin - 1);
	}
	if (strncmp(setting, warmup, sizeof warmup - 1) == 0) {
		reprise_options.warmup = setting + sizeof warmup - 1;
		return true;
	}
	fputs("reprise-php: the supervisor sent a setting that makes no sense\n", stderr);
	return false;
}

/* Settings that may be secrets come in a file in memory, for every user can read arguments. A zero byte follows each.
 */
static bool read_settings(int file)
{
	struct stat status;

	if (fstat(file, &status) != 0 || status.st_size < 0) {
		fprintf(stderr, "reprise-php: there are no settings: %s\n", strerror(errno));
		return false;
	}
	size_t size = (size_t)status.st_size, used = 0;
	char *text = malloc(size + 1);
	while (text && used < size) {
		ssize_t count = pread(file, text + used, size - used, (off_t)used);
		if (count <= 0) {
			break;
		}
		used += (size_t)count;
	}
	if (file > STDERR_FILENO) {
		close(file);
	}
	if (!text || used < size) {
		fputs("reprise-php: the settings cannot be read\n", stderr);
		return false;
	}
	text[size] = 0;
	for (const char *at = text; at < text + size; at += strlen(at) + 1) {
		if (!take_setting(at)) {
			return false;
		}
	}
	return true;
}

/* Debian's files for PHP-FPM, if they are installed: whoever moves here from FPM keeps his settings. */
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

/* What no rewind touches: the service stack with a guard below it, then our state. One mapping between guards, so that
 * the kernel merges it with nobody else's. */
static bool make_service_memory(void)
{
	struct service {
		struct worker_state worker;
		struct forker forker;
		struct snapshot_state state;
	};
	size_t state = (sizeof(struct service) + PAGE - 1) & ~(PAGE - 1);
	size_t size = PAGE + SERVICE_STACK + state + PAGE;
	char *base = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (base == MAP_FAILED || mprotect(base + PAGE, size - 2 * PAGE, PROT_READ | PROT_WRITE) != 0) {
		return false;
	}
	struct service *service = (struct service *)(base + PAGE + SERVICE_STACK);
	reprise_service_stack = (unsigned char *)base + PAGE;
	reprise_worker_state = &service->worker;
	reprise_forker = &service->forker;
	reprise_snapshot_state = &service->state;
	snapshot.own[0] = (struct range){(uintptr_t)base, (uintptr_t)base + size};
	return true;
}

static bool choose_isolation(const char *word)
{
	static const char *const words[] = {"auto", "rewind", "fork"};

	for (int i = 0; i < 3; i++) {
		if (strcmp(word, words[i]) == 0) {
			reprise_options.isolation = (enum wire_Isolation)i;
			return true;
		}
	}
	fprintf(stderr, "reprise-php: --isolation wants auto, rewind or fork: %s\n", word);
	return false;
}

int reprise_php_main(int argc, char **argv)
{
	bool asks_settings = false;
	int option;

	reprise_interpose_memory();
	reprise_interpose_process();
	reprise_interpose_files();
	/* libc's heap grows by the break alone, and never gives back: what it maps and unmaps by itself nobody would see.
	 */
	mallopt(M_MMAP_MAX, 0);
	mallopt(M_TRIM_THRESHOLD, -1);
	mallopt(M_TOP_PAD, 1 << 20);
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (option) {
		case OPT_NAME: reprise_options.name = optarg; break;
		case OPT_GENERATION: reprise_options.generation = (uint32_t)number(optarg); break;
		case OPT_CONTROL: reprise_options.control = number(optarg); break;
		case OPT_LIFELINE: reprise_options.lifeline = number(optarg); break;
		case OPT_INI: /* bench/rewind, whose arguments are no secret */
			if (!add_ini(optarg)) {
				return REPRISE_EXIT_USAGE;
			}
			break;
		case OPT_SETTINGS_FILE:
			if (!read_settings(number(optarg))) {
				return REPRISE_EXIT_USAGE;
			}
			break;
		case OPT_ISOLATION:
			if (!choose_isolation(optarg)) {
				return REPRISE_EXIT_USAGE;
			}
			break;
		case OPT_AUDIT: reprise_options.audits = true; break;
		case OPT_HOSTS: reprise_options.hosts = optarg; break;
		case OPT_MAX_REQUESTS: reprise_options.max_requests = strtoull(optarg, NULL, 10); break;
		case OPT_MAX_AGE: reprise_options.max_age = strtoull(optarg, NULL, 10); break;
		case OPT_MAX_MEMORY: reprise_options.max_memory_kib = strtoull(optarg, NULL, 10) / 1024; break;
		case OPT_MEASURE: reprise_options.measures = true; break;
		case OPT_WATCH: reprise_options.watches = true; break;
		case OPT_WATCH_EXCEPT:
			if (!append(&reprise_options.watch_except, &reprise_options.watch_except_count, optarg)) {
				return REPRISE_EXIT_INTERNAL;
			}
			break;
		case OPT_PHP_INI: reprise_options.php_ini = optarg; break;
		case OPT_SETTINGS: asks_settings = true; break;
		case OPT_UFFD: reprise_options.userfaultfd = number(optarg); break;
		case OPT_VERSION:
			choose_profile();
			printf("reprise-php %s\nphp %s\nini %s\n", REPRISE_VERSION, PHP_VERSION,
			       reprise_options.php_ini ? profile : "libphp's own");
#ifdef REPRISE_SANITIZERS
			puts("sanitizers " REPRISE_SANITIZERS);
#endif
			return 0;
		default: return REPRISE_EXIT_USAGE;
		}
	}
	bool is_started = reprise_options.control >= 0 && reprise_options.lifeline >= 0;
	if (optind != argc || (!is_started && !asks_settings)) {
		fputs("reprise-php: is started by reprise, not by hand\nhint: reprise serve DIR\n", stderr);
		return REPRISE_EXIT_USAGE;
	}
	if (getuid() == 0 || geteuid() == 0 || getgid() == 0) {
		fputs("reprise-php: refuses to run PHP as root\n", stderr);
		return REPRISE_EXIT_PERMISSION;
	}
	if (!make_service_memory()) {
		fputs("reprise-php: there is no memory\n", stderr);
		return REPRISE_EXIT_INTERNAL;
	}
	if (reprise_options.php_ini && access(reprise_options.php_ini, R_OK) != 0) {
		fprintf(stderr, "reprise-php: php.ini %s cannot be read: %s\n", reprise_options.php_ini, strerror(errno));
		return REPRISE_EXIT_BOOT;
	}
	choose_profile();
	if (asks_settings) {
		/* No code of the application runs for a question. */
		if (!add_ini("opcache.preload=") || !reprise_sapi_load()) {
			return REPRISE_EXIT_BOOT;
		}
		reprise_print_unknown_settings();
		_exit(0);
	}
	reprise_plant_fault();
	/* As PHP-FPM; the programs that PHP starts have it so there too. */
	signal(SIGPIPE, SIG_IGN);
	return reprise_prototype_run();
}
