/* Generators of libraries that PHP's extensions use. */
#ifndef REPRISE_RANDOM_LIBRARIES_H
#define REPRISE_RANDOM_LIBRARIES_H

void reprise_random_libraries_forget(void);  /* in the prototype */
void reprise_random_libraries_start(void);   /* in a new template, before any code of the application */
void reprise_random_libraries_prepare(void); /* at the snapshot */
void reprise_random_libraries_renew(void);   /* for each request */

#endif
