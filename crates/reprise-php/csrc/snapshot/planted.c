/*
 * Faults that tests/tests/snapshot/rewind_planted.rs plants in a rewind. The test shows that the checks of this build
 * find them. Only a build with REPRISE_SANITIZE=undefined-trap compiles this file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/checks.h"
#include "hot.h"
#include "pages.h"
#include "../core/snapshot_state.h"

enum planted_fault snapshot_planted_fault;

void snapshot_plant_fault(void)
{
	static const char *const names[] = {
	    [PLANTED_NOTHING] = "nothing",
	    [PLANTED_INDEX_PAST_HOT] = "index-past-hot",
	    [PLANTED_OVERFLOW] = "overflow",
	    [PLANTED_INDEX_PAST_HITS] = "index-past-hits",
	    [PLANTED_COPY_PAST_REGION] = "copy-past-region",
	    [PLANTED_STRAY_PAGE] = "stray-page",
	    [PLANTED_KEEP_ANY] = "keep-any",
	    [PLANTED_STRAY_GUARD] = "stray-guard",
	};
	const char *wanted = getenv("REPRISE_PLANT");

	if (!wanted) {
		return;
	}
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		if (strcmp(names[i], wanted) == 0) {
			snapshot_planted_fault = (enum planted_fault)i;
			return;
		}
	}
	fprintf(stderr, "reprise-php: REPRISE_PLANT names no fault: %s\n", wanted);
	exit(ipc_Exit_Usage);
}

static bool differs(const unsigned char *left, const unsigned char *right)
{
	for (size_t i = 0; i < PAGE; i++) {
		if (left[i] != right[i]) {
			return true;
		}
	}
	return false;
}

/* From the linker: the program's own memory. */
extern const unsigned char __executable_start[], _end[];

/* Variables of reprise-php lie there. With another page in their place the audit would crash, and not report. */
static bool is_of_program(const unsigned char *page)
{
	return page + PAGE > __executable_start && page < _end;
}

/* A copy of one page too many writes to the region that follows without a gap. */
static void copy_past_any_region(void)
{
	for (size_t i = 0; i + 1 < snapshot->image.region_count; i++) {
		const struct region *region = &snapshot->image.regions[i];
		unsigned char *past = (unsigned char *)region->end;
		const unsigned char *last = image_of(region, region->end - PAGE);
		if (region->end == snapshot->image.regions[i + 1].start && !is_of_program(past) && differs(past, last)) {
			copy_page(past, last);
			return;
		}
	}
}

void snapshot_plant_in_rewind(void)
{
	const struct region *last = &snapshot->image.regions[snapshot->image.region_count - 1];

	switch (snapshot_planted_fault) {
	case PLANTED_INDEX_PAST_HITS: ++*hits_of(last, last->end); break;
	case PLANTED_COPY_PAST_REGION: snapshot_copy_region(last, last->end, last->end + PAGE); break;
	case PLANTED_STRAY_PAGE: copy_past_any_region(); break;
	case PLANTED_STRAY_GUARD: copy_page(reprise_service_stack - PAGE, snapshot->image.bytes); break;
	default: break;
	}
}
