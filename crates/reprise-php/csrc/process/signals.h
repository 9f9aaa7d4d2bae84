/* Signals and timers of a worker, in every mode. On any stack. */
#ifndef REPRISE_SIGNALS_H
#define REPRISE_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>

/* Notes how each request is to find handlers, mask and timers. */
void process_signals_note(void);
/* Whether they may have changed since they were put back. */
bool process_signals_may_have_changed(void);
/* Puts them back if they may have changed. */
void process_signals_settle(void);
/* In a snapshot: handlers and the alternate stack. The mask stays that of the service stack. */
void process_signals_restore(void);
void process_timers_stop(void);
/* Whether a request has left timers of timer_create(): such a worker has to end. */
bool process_has_left_timers(void);

#endif
