/* Regular expressions that requests compile become part of the next snapshot. */
#ifndef REPRISE_LEARN_H
#define REPRISE_LEARN_H

#include <stdbool.h>

void reprise_learn_prepare(void);
void reprise_learn_note(void);
bool reprise_learn_leaves(void);
void reprise_learn_patterns(void);
bool reprise_lane_is_proved(bool went_well); /* false: no request went well so far */
void reprise_learn(void);

#endif
