/* Generators of libraries: random_libraries.c. */
#ifndef REPRISE_RANDOM_LIBRARIES_H
#define REPRISE_RANDOM_LIBRARIES_H

void reprise_random_libraries_start(void);
void reprise_random_libraries_prepare(void);
void reprise_random_libraries_renew(void);

#endif
