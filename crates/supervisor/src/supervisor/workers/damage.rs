//! Slabs that a worker has overwritten. Code that runs as an application's user can do that, because all workers of a lane write to
//! its slab. The front believes nothing that it reads there, but a lane whose slab is damaged serves nobody. Its application then
//! gets a new generation with new slabs, and the log says why. The pauses between such generations are those of other renewals
//! ([`crate::reload`]).
//!
//! | sign | seen by |
//! |---|---|
//! | workers end with 89: they cannot map the slab, or what is there makes no sense to them | [`crate::plan::Suspicion::unhealthy`] |
//! | its header or its queue has impossible values, several times in a row | [`Supervisor::look_at_slab`] |
//! | its phase says that workers are to end, and the supervisor has not set that: the phase is set back, and counts like a worker that ended with 89 | [`Supervisor::judge_phase`] |

use ipc::layout::Phase;

use crate::lanes::generation::{Generation, GenerationId, Stage};
use crate::lanes::template::Template;
use crate::logs::own::log;
use crate::supervisor::Supervisor;

/// Why a generation with a damaged slab is replaced.
pub(crate) const DAMAGED: &str =
    "its workers cannot start; perhaps one of them has damaged the memory that they share with the front";
/// So many looks, a second apart, have to find a slab damaged before its generation is replaced.
const LOOKS: u32 = 3;
/// After so many looks the generation is to be replaced again.
const PAUSE: u32 = 60;

impl Supervisor {
    /// Looks whether a slab is damaged. Once a second.
    pub(crate) fn look_at_slab(&mut self, id: GenerationId, lane: usize) {
        let Some(generation) = self.generations.get_mut(id).filter(|one| one.stage == Stage::Serving) else { return };
        let mailbox = generation.lanes.get_mut(lane).and_then(|lane| lane.mailbox.as_mut());
        if mailbox.is_some_and(|mailbox| mailbox.is_damaged(LOOKS, PAUSE)) {
            let what = self.describe(id, lane);
            log(
                "error",
                format_args!("{what}: a worker has overwritten the memory that its lane shares with the front"),
            );
            self.renew(id, DAMAGED);
        }
    }

    /// Workers end when their lane's phase says so. They can write the phase themselves: one that the supervisor has not set is set
    /// back.
    pub(crate) fn judge_phase(&mut self, id: GenerationId, lane: usize) {
        let is_stopping = self.shutdown.is_begun();
        let is_serving = |generation: &&mut Generation| generation.stage == Stage::Serving && !is_stopping;
        let Some(generation) = self.generations.get_mut(id).filter(is_serving) else { return };
        let Some(of_lane) = generation.lanes.get(lane) else { return };
        let is_leaving = of_lane.template.as_ref().is_some_and(Template::is_leaving);
        let Some(mailbox) = of_lane.mailbox.as_ref().filter(|_| !is_leaving) else { return };
        if mailbox.slab.phase() == Phase::Open {
            return;
        }
        mailbox.slab.set_phase(Phase::Open);
        let what = generation.describe(lane);
        let is_suspect = generation.suspicion.unhealthy(self.began.elapsed());
        log(
            "error",
            format_args!(
                "{what}: a worker has told all workers of its lane to end; the supervisor withdraws that order"
            ),
        );
        if is_suspect {
            self.renew(id, DAMAGED);
        }
    }
}
