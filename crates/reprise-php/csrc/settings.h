/* Settings that differ between requests. */
#ifndef REPRISE_SETTINGS_H
#define REPRISE_SETTINGS_H

#include <stdbool.h>

int reprise_activate_settings(void);
bool reprise_lock_settings(void);

#endif
