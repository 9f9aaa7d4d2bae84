/* PHP's call frames, of this process and of others. */
#ifndef REPRISE_FRAMES_H
#define REPRISE_FRAMES_H

#include <stdbool.h>
#include <sys/types.h>

struct raw_text;

/* Frames of a process that can be read at once. */
#define MOST_FRAMES 128

/* Reads memory of a process with the same libraries. False: not all of it is there. */
bool engine_fetch(pid_t pid, const void *from, void *to, size_t size);

/* Calls for each frame of such a process, the innermost first, with its function, a blank and its place; at most `most`
 * frames. The process runs meanwhile: what is not valid is read again, so often. Returns their number. */
size_t engine_each_frame(pid_t pid, int most, int tries, void (*visit)(void *, const struct raw_text *), void *context);

/* Writes the frames of such a process, one line each. */
void engine_write_frames(int file, pid_t pid);

bool engine_is_in_destructor(void);

#endif
