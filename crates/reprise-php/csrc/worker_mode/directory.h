/* The working directory of a worker script. */
#ifndef REPRISE_DIRECTORY_H
#define REPRISE_DIRECTORY_H

void reprise_directory_enter(const char *script); /* a request begins */
void reprise_directory_leave(void);               /* its callable has returned */
void reprise_directory_return(void);              /* its response is complete */

#endif
