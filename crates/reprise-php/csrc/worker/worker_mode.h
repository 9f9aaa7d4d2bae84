/*
 * Worker scripts: the files of this directory.
 *
 * worker_mode.c  the function, and the processes of a worker script's lane
 * cycle.c        a request begins and ends while its script goes on
 * directory.c    the working directory
 *
 * ../engine has what PHP and its modules keep between two requests, and puts it back.
 */
#ifndef REPRISE_WORKER_MODE_H
#define REPRISE_WORKER_MODE_H

#include <stdbool.h>

struct forker;

_Noreturn void worker_run(struct forker *forker); /* in a process forked for a worker script's lane */

#endif
