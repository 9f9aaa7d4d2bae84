/* Generators of libraries that PHP's extensions use. */
#ifndef REPRISE_RANDOM_LIBRARIES_H
#define REPRISE_RANDOM_LIBRARIES_H

void engine_random_libraries_forget(void);  /* in the prototype */
void engine_random_libraries_start(void);   /* in a new template, before any code of the application */
void engine_random_libraries_prepare(void); /* at the snapshot */
void engine_random_libraries_renew(void);   /* for each request */

bool engine_random_is_preloaded(void); /* the prototype has run code of the application */

#endif
