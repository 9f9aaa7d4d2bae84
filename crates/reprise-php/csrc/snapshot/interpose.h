/* Functions that the linker prefers to libc's: dirty*.c. */
#ifndef REPRISE_INTERPOSE_H
#define REPRISE_INTERPOSE_H

#include <stdbool.h>

/* These do nothing. The linker takes a file from a static library only if something calls a function of the file. */
void reprise_interpose_memory(void);
void reprise_interpose_process(void);
void reprise_interpose_files(void);
void reprise_attributes_start(void); /* in a worker */
bool reprise_attributes_are_right(void);
/* Makes pages present that are not the snapshot's. The faults of that do not count. */
void reprise_populate(uintptr_t start, uintptr_t end, bool writes);
bool reprise_may_set_flags(int number, long flags);
/* The same of an ioctl. */
bool reprise_may_control(int number, long request);
int reprise_note_opened(int number, int flags);

#endif
