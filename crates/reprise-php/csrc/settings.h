/* Settings that are not the same for all requests: settings.c. */
#ifndef REPRISE_SETTINGS_H
#define REPRISE_SETTINGS_H

#include <stdbool.h>

int reprise_activate_settings(void);
bool reprise_lock_settings(void);

#endif
