/*
 * What the files of reprise-php share.
 *
 * main.c       arguments, service memory, then the prototype
 * prototype.c  one process per application: module start once, then forks classic workers and templates
 * forker.c     the loop of what forks workers: obeys the supervisor, reaps and reports
 * worker.c     one process per slot: claims requests from the slab and runs them
 * request.c    one request, from head to end, as PHP-FPM runs it
 * sapi.c       PHP's callbacks: output, headers, body, log
 * variables.c  $_SERVER, getenv() and cookies, from the request head
 * functions.c  functions for PHP code (reprise.stub.php)
 * opcache.c    what opcache says of itself
 * watch.c      whether files that it has loaded have changed
 * log.c, raw.c what needs no libc
 * engine/      what is private in PHP: engine/probes.c says how another version is noticed
 * worker_mode/ worker scripts
 * snapshot/    templates and their clones: snapshot/snapshot.h has its own list
 *
 * Only single-threaded code runs here. setjmp and longjmp begin and end in C; wire's functions are leaves, and an abort
 * is raised only after one has returned.
 */
#ifndef REPRISE_H
#define REPRISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire.h"

/* Exit codes; the same as in docs/reference/exit-codes.md. */
enum reprise_exit {
	REPRISE_EXIT_DRAINED = 0,
	REPRISE_EXIT_INTERNAL = 1,
	REPRISE_EXIT_USAGE = 64,
	REPRISE_EXIT_BOOT = 70,
	/* A boot that ran to the end of its script: that asks for no lane. */
	REPRISE_EXIT_NOT_ASKED = 71,
	REPRISE_EXIT_PERMISSION = 77,
	REPRISE_EXIT_RECYCLE = 88,
	REPRISE_EXIT_UNHEALTHY = 89,
	REPRISE_EXIT_DESCRIPTORS = 90,
};

/* What the supervisor said on the command line. */
struct reprise_options {
	const char *name;          /* of the application */
	const char *php_ini;       /* php.ini to read; NULL: libphp's own choice */
	const char *scan_dir;      /* directories of further ini files */
	char *ini;                 /* name="value" lines that win over files; malloc'd */
	const char *warmup;        /* requests for a boot to run, a JSON list; NULL: none */
	const char *hosts;         /* names that the application answers to, a JSON list; NULL: none */
	const char **watch_except; /* directories whose files may change; absolute */
	size_t watch_except_count;
	const char **locked; /* NAME=VALUE of settings that scripts may not change; they are among `ini` too */
	size_t locked_count;
	int control;         /* socket to the supervisor */
	int lifeline;        /* read end of a pipe; hang-up means that the supervisor is gone */
	int userfaultfd;     /* /dev/userfaultfd, opened; -1: not given */
	uint32_t generation; /* the same, among those of its application, from 1 */
	const char **set;    /* NAME=VALUE of settings that scripts may change */
	size_t set_count;
	uint64_t max_requests;   /* of a worker; 0: any number */
	uint64_t max_age;        /* seconds of a worker; 0: any */
	uint64_t max_memory_kib; /* of a worker, after a request; 0: any */
	enum wire_Isolation isolation;
	char oom_score[16]; /* of workers, for /proc/self/oom_score_adj */
	bool audits;        /* compare all memory after each rewind */
	bool watches;       /* ask for a new generation when a loaded file has changed */
	bool measures;      /* tell the front what each request has used */
};

/* Where a request is, for what may be done in a callback. */
enum reprise_stage { REPRISE_STARTING, REPRISE_RUNNING, REPRISE_ENDING };

/* What a worker is. All zero in the prototype. In service memory, which no rewind touches. */
struct worker_state {
	struct wire_worker_state wire;
	uint32_t slot;
	pid_t pid;
	uint64_t requests;
	bool is_worker;   /* false in the prototype, in templates and in children that PHP code forks */
	bool is_template; /* a template that boots */
	bool answering;   /* the exchange is ours: claimed, answer not completed */
	bool head_sent;   /* the answer's head is in the ring */
	bool body_broken; /* the client left before it had sent all of its body */
	enum reprise_stage stage;
	uint64_t processor_ns; /* of this process when the request began; only if we measure */
	size_t peak;           /* memory PHP had, once it is about to forget that; else 0 */
	/* The request head, copied: it must outlive fastcgi_finish_request(). */
	_Alignas(16) unsigned char head[32 * 1024];
};

extern struct reprise_options reprise_options;
extern struct worker_state *reprise_worker_state;
#define reprise_worker (*reprise_worker_state)
#define reprise_audits (reprise_options.audits)

/* A step of a request's end: a fatal error in it does not keep the others from being taken. */
#define STEP(what)                                                                                                     \
	zend_try                                                                                                           \
	{                                                                                                                  \
		what;                                                                                                          \
	}                                                                                                                  \
	zend_end_try()

/* prototype.c */
int reprise_prototype_run(void);
bool reprise_has_templates(void);
struct forker;
long reprise_fork_worker(struct forker *forker); /* 0: in the new worker; else its pid or a negative errno */

/* worker.c: never returns. */
_Noreturn void reprise_worker_run(int slab, const struct wire_Geometry *geometry, uint32_t slot, const int *eventfds);

void reprise_worker_attach(int slab, const struct wire_Geometry *geometry, uint32_t slot, const int *eventfds);
void reprise_worker_offers_memory(void); /* on any stack: where memory runs out, it is lost before what serves others */
bool reprise_await_request(void); /* queued for this lane's workers; false: there will be none, the worker is to end */
void reprise_in_forked_child(void);

/* worker_mode/worker_mode.c */
_Noreturn void reprise_loop_run(struct forker *forker); /* in a process forked for a worker script's lane */
bool reprise_is_loop(void);
bool reprise_loop_has_begun(void);
void reprise_loop_forget(void);

/* request.c */
void reprise_request_run(void);
bool reprise_request_finish(void);
void reprise_finish_answer(void); /* completes it as it is; the exchange is not ours any more */
int reprise_note_memory(void);
bool reprise_claim_request(void); /* on any stack: copies the head and enters; false if it is not ours any more */
void reprise_describe_request(const struct wire_RequestHead *head);
void reprise_script_begins(void);
/* False if it was left by exit() or by an error. */
bool reprise_run_script(const char *script);
void reprise_close_script(void);
bool reprise_script_has_begun(void); /* in a boot: false in what auto_prepend_file names */
void reprise_enter_directory(const char *script);

/* log.c */
void reprise_log_line(const char *level, const char *format, ...) __attribute__((format(printf, 2, 3)));
void reprise_service_log(const char *level, const char *what, const char *detail); /* on any stack */

/* functions.c; the type is PHP's zif_handler */
struct _zend_execute_data;
struct _zval_struct;
typedef void (*reprise_handler)(struct _zend_execute_data *, struct _zval_struct *);
void reprise_wrap_function(const char *name, reprise_handler wrapper, reprise_handler *wrapped);

/* sapi.c */
bool reprise_sapi_load(void);  /* PHP and its modules alone */
bool reprise_sapi_start(void); /* with what an application needs */

/* cgi.c: the settings that PHP-FPM itself has */
void reprise_register_settings(int module_number);
void reprise_add_error_header(void); /* as a request ends, before its output does */

/* names.c: settings that are configured and that PHP has not. */
const char *reprise_nearest_setting(const char *name, size_t size); /* or NULL */
bool reprise_has_setting(const char *name, size_t size);
void reprise_print_unknown_settings(void);
void reprise_report_unknown_settings(void);

/* bodies.c: for the message that a forker is ready */
struct wire_Bodies;
void reprise_describe_bodies(struct wire_Bodies *bodies);         /* of one that has booted nothing */
void reprise_describe_bodies_of_boot(struct wire_Bodies *bodies); /* whose settings are those of its boot */

/* overtime.c. The signal is that of process::sys::OVERTIME. */
#define REPRISE_OVERTIME_SIGNAL 62
void reprise_overtime_start(void);  /* once, when PHP's modules have started */
void reprise_overtime_watch(void);  /* in each process that runs code */
void reprise_overtime_forget(void); /* a request begins */

/* opcache.c */
void reprise_opcache_start(void); /* once, when PHP's modules have started */
void reprise_opcache_look(void); /* as a request ends, in a worker: asks for a new generation if it cannot go on well */

/* watch.c: forks the watcher; 0 or a negative errno. */
int reprise_watch_start(struct forker *forker);

/* settings.c */
int reprise_activate_settings(void);
bool reprise_lock_settings(void);

/* variables.c */
const struct wire_RequestHead *reprise_head(void);
const char *reprise_head_text(struct wire_Span span);
void reprise_register_variables(void *array);
void reprise_variables_start(void);
const char *reprise_variable(const char *name, size_t size);
/* Calls `each` with name and value of every variable until it returns false. */
void reprise_each_variable(bool (*each)(const char *, uint32_t, const char *, uint32_t, void *), void *context);

#endif
