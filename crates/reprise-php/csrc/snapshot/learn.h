/* Regular expressions that requests compile become part of the next snapshot. */
#ifndef REPRISE_LEARN_H
#define REPRISE_LEARN_H

#include <stdbool.h>

void snapshot_learn_prepare(void);
void snapshot_learn_note(void);
bool snapshot_learn_leaves(void);
void snapshot_learn_patterns(void);
bool snapshot_lane_is_proved(bool went_well); /* false: no request went well so far */
void snapshot_learn(void);

#endif
