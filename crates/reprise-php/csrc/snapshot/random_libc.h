/* libc's generators: random_libc.c. */
#ifndef REPRISE_RANDOM_LIBC_H
#define REPRISE_RANDOM_LIBC_H

void reprise_random_libc_seed(void);   /* at once, if nobody has since the last: */
void reprise_random_libc_forget(void); /* the next draw seeds */
void reprise_random_libc_renew(void);
void reprise_random_libc_is_passed_by(void); /* it is drawn from without our seeing it */

#endif
