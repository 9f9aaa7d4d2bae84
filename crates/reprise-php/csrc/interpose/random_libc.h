/* libc's generators: random_libc.c. */
#ifndef REPRISE_RANDOM_LIBC_H
#define REPRISE_RANDOM_LIBC_H

void interpose_random_libc_seed(void);   /* seeds the generators, unless they have a seed */
void interpose_random_libc_forget(void); /* they have no seed: the next draw seeds them */
void interpose_random_libc_renew(void);
void interpose_random_libc_is_passed_by(void); /* code may draw by libc's own functions */

#endif
