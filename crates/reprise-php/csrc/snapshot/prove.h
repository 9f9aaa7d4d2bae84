/* Checks after each rewind. On the service stack. */
#ifndef REPRISE_PROVE_H
#define REPRISE_PROVE_H

#include <stdbool.h>

void snapshot_prove_start(void);
void snapshot_prove_alone(void);
bool snapshot_sizes_are_right(void);
void snapshot_prove_mappings(void);
void snapshot_prove_watched(bool has_searched);
void snapshot_audit(bool was_fast);

#endif
