/* ext/session between requests. */
#ifndef REPRISE_SESSION_H
#define REPRISE_SESSION_H

#include <stdbool.h>

void engine_session_forget(void); /* at the snapshot; fails the boot if a session is open */

/* Of a worker script: noted once, when its loop begins, and restored for each request. */
void engine_session_note_handlers(void);
void engine_session_restore_handlers(void);

/* ext/session refuses session.save_handler = "user" unless it sets the value itself. With `takes` it accepts it. */
void engine_session_takes_handlers(bool takes);

#endif
