/* Mappings of the process. */
#ifndef REPRISE_MAPS_H
#define REPRISE_MAPS_H

#include <stdbool.h>
#include <stdint.h>

struct mapping;
struct region;

typedef bool (*mapping_visitor)(const struct mapping *, const char *name, void *context);
long snapshot_each_mapping_of(int descriptor, mapping_visitor visit, void *context);
long snapshot_each_mapping(const char *file, mapping_visitor visit, void *context);
long snapshot_restore_mappings(void); /* 0, a negative errno, or 1: a mapping cannot be made again */
bool snapshot_is_own(uintptr_t start, uintptr_t end);
const struct region *snapshot_region_of(uintptr_t address);

#endif
