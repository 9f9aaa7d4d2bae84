/* State that the kernel keeps for a process is put back. On the service stack. */
#ifndef REPRISE_KERNEL_H
#define REPRISE_KERNEL_H

#include <stdbool.h>

void reprise_kernel_take(void);
void reprise_block_signals(void);
void reprise_kernel_start(void); /* in a clone */
void reprise_kernel_restore(void);
bool reprise_is_known_descriptor(int number);
bool reprise_has_only_known_descriptors(void);

#endif
