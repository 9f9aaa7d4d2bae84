//! Slabs that a worker has written over. Whoever runs PHP code as an application's user can: a slab is memory that all workers of its
//! lane write to. The front believes nothing that it reads there; but a lane whose slab cannot be used any more serves nobody.
//! Its application gets a new generation then, with new slabs, and the log says why. Between two of those lies the same pause
//! as between others that come by themselves ([`super::reload`]).
//!
//! | sign | seen by |
//! |---|---|
//! | workers end with 89: they cannot map the slab, or what is there makes no sense to them | [`crate::plan::Suspicion::unhealthy`] |
//! | its header, or its queue, says what cannot be, several times in a row | [`Supervisor::look_at_slab`] |
//! | its phase says that workers are to end, which nobody here has said: it is put back, and counts as such an end | [`Supervisor::judge_phase`] |

use wire::layout::Phase;

use super::generation::{Generation, GenerationId, Stage};
use super::template::Template;
use super::{Supervisor, log};

/// Why such a generation is replaced.
pub(super) const DAMAGED: &str =
    "its workers cannot start; perhaps one of them has damaged the memory that they share with the front";
/// Looks, a second apart, that find a slab in disorder before something is done about it.
const LOOKS: u32 = 3;
/// And until something is done again.
const PAUSE: u32 = 60;

impl Supervisor {
    /// Looks whether a slab can still be what it was made as. Once a second.
    pub(super) fn look_at_slab(&mut self, id: GenerationId, lane: usize) {
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

    /// Workers end when their lane's phase says so, and they can write there themselves: what nobody here has said is taken back.
    pub(super) fn judge_phase(&mut self, id: GenerationId, lane: usize) {
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
