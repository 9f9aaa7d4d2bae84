/* What libraries make at their first use, made before the snapshot. On PHP's stack. */
#ifndef REPRISE_WARM_H
#define REPRISE_WARM_H

#include <stdbool.h>

void snapshot_warm_libraries(void);
void snapshot_hold_locale(void);                /* the present one */
bool snapshot_learn_locale(const char *shared); /* false: there is none of that name */

#endif
