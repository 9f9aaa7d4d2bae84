/* PHP's call frames, of this process and of others. */
#ifndef REPRISE_FRAMES_H
#define REPRISE_FRAMES_H

#include <stdbool.h>
#include <sys/types.h>

/* Writes the frames of a process with the same libraries, one line each. */
void reprise_write_frames(int file, pid_t pid);

bool reprise_is_in_destructor(void);

#endif
