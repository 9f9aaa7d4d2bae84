/* Settings that differ between requests. */
#ifndef REPRISE_SETTINGS_H
#define REPRISE_SETTINGS_H

#include <stdbool.h>

int request_activate_settings(void);
bool request_lock_settings(void);

#endif
