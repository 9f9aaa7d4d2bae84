/* The watcher of files. */
#ifndef REPRISE_WATCH_H
#define REPRISE_WATCH_H

struct forker;

/* Forks the watcher; 0 or a negative errno. */
int process_watch_start(struct forker *forker);

#endif
