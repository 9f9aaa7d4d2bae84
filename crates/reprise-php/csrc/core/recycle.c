/* A worker that cannot prove that it is as it was ends, and a fresh one takes its place. On any stack. */
#include "log.h"
#include "raw.h"
#include "recycle.h"
#include "snapshot_state.h"
#include "ipc.h"
#include "worker_state.h"

static void (*say_goodbye)(void);

void reprise_recycle_begins_by(void (*what)(void))
{
	say_goodbye = what;
}

void reprise_blame(const char *what, uintptr_t address)
{
	struct raw_text text = {0};

	raw_add(&text, what);
	if (address) {
		raw_add(&text, " at ");
		raw_add_hex(&text, address);
	}
	text.size = text.size < sizeof snapshot->notes.culprit ? text.size : sizeof snapshot->notes.culprit - 1;
	raw_copy(snapshot->notes.culprit, text.bytes, text.size);
	snapshot->notes.culprit[text.size] = 0;
}

void reprise_recycle(enum ipc_Recycle why, const char *detail)
{
	struct raw_text text = {0};
	uint8_t word[16];

	if (snapshot->is_trial) {
		reprise_service_log("error", "the script cannot be booted: no worker can start from its snapshot", detail);
		for (;;) {
			RAW1(SYS_exit_group, ipc_Exit_NotBooted);
		}
	}
	ipc_recycle_word(why, &word);
	raw_add(&text, "recycled: ");
	raw_add(&text, (const char *)word);
	text.bytes[text.size] = 0;
	ipc_recycled(&reprise_worker->ipc, why);
	if (say_goodbye) {
		say_goodbye();
	}
	reprise_service_log(why == ipc_Recycle_Audit ? "error" : "notice", text.bytes, detail);
	for (;;) {
		RAW1(SYS_exit_group, ipc_Exit_Recycle);
	}
}
