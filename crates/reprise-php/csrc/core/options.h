/* What the supervisor said in the settings file. */
#ifndef REPRISE_OPTIONS_H
#define REPRISE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc.h"

struct reprise_options {
	const char *name;          /* of the application */
	const char *php_ini;       /* php.ini to read; NULL: libphp's own choice */
	const char *file_cache;    /* directory of compiled code that is only read; NULL: none */
	const char *scan_dir;      /* directories of further ini files */
	char *ini;                 /* name="value" lines that win over files; malloc'd */
	const char *warmup;        /* requests for a boot to run, a JSON list; NULL: none */
	const char *error_page;    /* page of fatal errors, as PHP code; NULL: none */
	const char *hosts;         /* names that the application answers to, a JSON list; NULL: none */
	const char **watch_except; /* directories whose files may change; absolute */
	size_t watch_except_count;
	const char **locked; /* NAME=VALUE of settings that scripts may not change; they are among `ini` too */
	size_t locked_count;
	int control;           /* socket to the supervisor */
	int lifeline;          /* read end of a pipe; hang-up means that the supervisor is gone */
	int phar;              /* the sealed copy of the phar that the scripts are in; -1: they are in none */
	const char *phar_path; /* that phar; NULL: there is none */
	int userfaultfd;       /* /dev/userfaultfd, opened; -1: not given */
	const char *needs;     /* what the supervisor has found and said of what a rewind needs; NULL: it has not tried */
	const char *release;   /* whose files are served; NULL: of none */
	uint32_t generation;   /* ordinal of the generation, from 1 for each application */
	const char **set;      /* NAME=VALUE of settings that scripts may change */
	size_t set_count;
	uint64_t max_requests;   /* of a worker; 0: any number */
	uint64_t max_age;        /* seconds of a worker; 0: any */
	uint64_t max_memory_kib; /* of a worker, after a request; 0: any */
	enum ipc_Isolation isolation;
	char oom_score[16];    /* of workers, for /proc/self/oom_score_adj */
	int data_file;         /* memory file of the data cache; -1: there is none */
	uint64_t data_address; /* where it is mapped in all processes of the application */
	uint64_t data_size;
	int data_store;            /* the door to the process that talks to other nodes; -1: there are none */
	uint64_t data_staleness;   /* milliseconds for which values are good without news of other nodes; 0: for ever */
	uint64_t data_wait;        /* milliseconds for a value that another computes */
	uint32_t kept;             /* workers of a lane that keep connections; 0: none */
	const char *kept_networks; /* of servers, between commas; NULL: none but this machine */
	bool scrubs;               /* fill pages that were free at the snapshot with zeroes after each request */
	bool audits;               /* compare all memory after each rewind */
	bool watches;              /* ask for a new generation when a loaded file has changed */
	bool measures;             /* tell the front what each request has used */
};

extern struct reprise_options reprise_options;

/* Each is false if there is no memory, or with a message on standard error. */
bool reprise_add_ini(const char *pair);
bool reprise_read_settings(int file);

#endif
