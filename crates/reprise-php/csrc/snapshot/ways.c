/* What both ways of a rewind share. On the service stack. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/resource.h>

#include "../core/raw.h"
#include "../core/recycle.h"
#include "../core/snapshot_state.h"
#include "ways.h"
#include "ipc.h"

const struct watch_way *snapshot_way(void)
{
	return snapshot->watch.way;
}

struct faults snapshot_faults(void)
{
	struct rusage self = {0}, children = {0};

	/* RUSAGE_SELF counts all threads, ended ones included. */
	RAW2(SYS_getrusage, RUSAGE_SELF, &self);
	RAW2(SYS_getrusage, RUSAGE_CHILDREN, &children);
	return (struct faults){self.ru_minflt + self.ru_majflt, children.ru_minflt + children.ru_majflt};
}

void snapshot_watch_or_recycle(uintptr_t start, uintptr_t end)
{
	if (start < end && !snapshot_way()->watch(start, end)) {
		reprise_recycle(ipc_Recycle_Protection, "pages cannot be protected any more");
	}
}

void snapshot_watch_goes_on(void)
{
	snapshot_way()->end();
	snapshot->watch.faults = snapshot_faults();
}

/* MADV_GUARD_REMOVE (Linux 6.13). It changes no page that is not a guard. */
void snapshot_remove_guards(void)
{
	for (size_t i = 0; i < snapshot->image.region_count; i++) {
		const struct region *region = &snapshot->image.regions[i];
		RAW3(SYS_madvise, region->start, region->end - region->start, 103);
	}
}
