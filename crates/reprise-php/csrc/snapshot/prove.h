/* Checks after each rewind. On the service stack. */
#ifndef REPRISE_PROVE_H
#define REPRISE_PROVE_H

#include <stdbool.h>

void reprise_prove_start(void);
void reprise_prove_alone(void);
bool reprise_sizes_are_right(void);
void reprise_prove_mappings(void);
void reprise_audit(bool was_fast);

#endif
