/* State that the kernel keeps for a process is put back. On the service stack. */
#ifndef REPRISE_KERNEL_H
#define REPRISE_KERNEL_H

#include <stdbool.h>

void snapshot_kernel_take(void);
void snapshot_block_signals(void);
void snapshot_kernel_start(void); /* in a clone */
void snapshot_kernel_restore(void);
bool snapshot_has_only_known_descriptors(void);

#endif
