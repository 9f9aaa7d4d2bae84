/* Functions that the linker prefers to libc's: dirty*.c. */
#ifndef REPRISE_INTERPOSE_H
#define REPRISE_INTERPOSE_H

#include <stdbool.h>

/* These do nothing. The linker takes a file from a static library only if something calls a function of the file. */
void interpose_memory(void);
void interpose_process(void);
void interpose_files(void);
void interpose_attributes_start(void); /* in a worker */
bool interpose_attributes_are_right(void);
/* Makes pages present that are not the snapshot's. The faults of that do not count. */
void interpose_populate(uintptr_t start, uintptr_t end, bool writes);
bool interpose_may_set_flags(int number, long flags);
/* The same of an ioctl. */
bool interpose_may_control(int number, long request);
int interpose_note_opened(int number, int flags);

/* Of the snapshot, or reprise-php's own. */
bool interpose_is_known_descriptor(int number);

#endif
