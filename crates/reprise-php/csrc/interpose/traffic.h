/* Calls of PHP and its libraries on connections that are kept. */
#ifndef REPRISE_TRAFFIC_H
#define REPRISE_TRAFFIC_H

#include <stdbool.h>

#include "../core/connections_state.h"

void interpose_traffic(void);
bool interpose_connection_is_open(const struct kept_connection *connection);
void interpose_forget_closed(void);          /* connections of the hook that runs */
void interpose_connections_hold(bool holds); /* what is sent and closed from here on stays here */
void interpose_note_raw_call(long number, long descriptor);
bool interpose_is_kept(int number);

#endif
