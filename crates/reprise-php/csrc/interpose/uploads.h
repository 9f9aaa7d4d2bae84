/* Files of uploads, removed with a worker that is killed: see uploads.c. */
#ifndef REPRISE_UPLOADS_H
#define REPRISE_UPLOADS_H

#include <sys/types.h>

void interpose_uploads_start(void); /* once, when PHP's modules have started */
/* A worker has claimed its next request: PHP has removed the files of the one before. On any stack. */
void interpose_uploads_forget(void);
/* This process has reaped its child. Raw system calls only. */
void interpose_uploads_reaped(pid_t worker);

#endif
