/* What needs.c tries of a userfaultfd. */
#ifndef REPRISE_USERFAULT_H
#define REPRISE_USERFAULT_H

#include <stdbool.h>

long snapshot_userfault_open(void);              /* a descriptor, or a negative errno */
long snapshot_userfault_set_up(int descriptor);  /* a negative errno: no asynchronous write protection */
long snapshot_userfault_try_search(int pagemap); /* a negative errno: the kernel has no PAGEMAP_SCAN */

#endif
