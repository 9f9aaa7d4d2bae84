/* PHP's modules: their names, and what they do when a request ends or begins. */
#ifndef REPRISE_MODULES_H
#define REPRISE_MODULES_H

/* On standard output, a line each. */
void engine_print_extensions(void);
void engine_print_symbols(void);

/* At a snapshot: modules that only free memory when a request ends do not see the end of its requests. */
void engine_modules_leave_memory(void);

void engine_modules_start(void);
void engine_modules_stop(void);
/* The time of a request that modules keep for themselves. */
void engine_modules_forget_time(void);

/* Whether an extension is loaded. */
bool engine_has_module(const char *name);

#endif
