/* For `reprise release build`: compiles scripts into a file cache of opcache. */
#ifndef REPRISE_COMPILE_H
#define REPRISE_COMPILE_H

/* Reads paths from standard input, one a line, and compiles each. No code of them runs. Writes "ok" or "no" for each.
 * Returns the exit code. */
int engine_compile_run(void);

#endif
