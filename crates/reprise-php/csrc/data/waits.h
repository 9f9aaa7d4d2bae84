/* What a request waits for: its forker reads that when the request is slow, or somebody asks (trace.h). */
#ifndef REPRISE_DATA_WAITS_H
#define REPRISE_DATA_WAITS_H

#include <sys/types.h>

/* A line for a file if the worker waits. Runs on any stack: raw system calls only. */
void data_write_wait(int file, pid_t pid);

#endif
