/* The working directory of a worker script. */
#ifndef REPRISE_DIRECTORY_H
#define REPRISE_DIRECTORY_H

void worker_directory_enter(const char *script); /* a request begins */
void worker_directory_leave(void);               /* its callable has returned */
void worker_directory_return(void);              /* its response is complete */

#endif
