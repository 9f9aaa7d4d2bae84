/* What libraries make at their first use, made before the snapshot. On PHP's stack. */
#ifndef REPRISE_WARM_H
#define REPRISE_WARM_H

#include <stdbool.h>

/* The longest name of a locale that is learned, with its end. */
#define REPRISE_LOCALE 64

void reprise_warm_libraries(void);
void reprise_hold_locale(void);                /* the present one */
void reprise_note_locale(const char *name);    /* a request has set it */
bool reprise_learn_locale(const char *shared); /* false: there is none of that name */

#endif
