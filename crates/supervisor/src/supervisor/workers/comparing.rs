//! Carries out what [`crate::lanes::comparison`] decides.

use std::time::Instant;

use ipc::control::{Isolation, LaneId, ToForker, ToFront};
use ipc::exit::Exit;
use ipc::layout::Phase;

use crate::lanes::comparison::ENOUGH;
use crate::lanes::generation::GenerationId;
use crate::lanes::lane::Lane;
use crate::logs::own::log;
use crate::os::exited::Ending;
use crate::peers::channel::send;
use crate::supervisor::Supervisor;

impl Lane {
    /// Its template has begun.
    pub(crate) fn begins_comparison(&mut self, got: Isolation, is_ours: bool) {
        if got == Isolation::Fork && is_ours && self.isolation == Isolation::Auto {
            self.comparison.get_or_insert_default().begin_again();
        }
    }
}

impl Supervisor {
    /// A worker of a lane has ended by itself, after a request that took so much.
    pub(crate) fn note_fork(&mut self, id: GenerationId, lane: usize, ending: Ending, processor_us: u32) {
        let of = self.lane_id(id, lane);
        let Some(of_lane) = self.generations.lane_mut(id, lane).filter(|_| ending.is(Exit::Success)) else { return };
        let median = of_lane.comparison.as_mut().and_then(|comparison| comparison.forked(processor_us));
        let Some(median) = median else { return };
        self.front.send(&ToFront::Compare { lane: of }, &[]);
        let what = self.describe(id, lane);
        let took = milliseconds(median);
        let then = "its next requests run in classic mode, to compare";
        log("notice", format_args!("{what}: isolation fork takes {took} of processor time for a request; {then}"));
    }

    /// The front says what a lane's requests take in classic mode.
    pub(crate) fn compared(&mut self, of: LaneId, classic_us: u32) {
        let (id, lane) = (of.generation, of.lane as usize);
        if of != self.lane_id(id, lane) {
            return;
        }
        let comparison = self.generations.lane_mut(id, lane).and_then(|lane| lane.comparison.as_mut());
        let Some((fork_us, is_classic)) = comparison.and_then(|comparison| comparison.decide(classic_us)) else {
            return;
        };
        let what = self.describe(id, lane);
        let (classic, fork) = (milliseconds(classic_us), milliseconds(fork_us));
        let numbers = format!(
            "classic mode takes {classic} of processor time for a request, isolation fork {fork} (medians of {ENOUGH})"
        );
        if is_classic {
            let hint = "hint: isolation = \"fork\" keeps requests on the snapshot";
            log("notice", format_args!("{what}: {numbers}: classic mode runs them until the next reload; {hint}"));
            self.let_template_leave(id, lane);
        } else {
            log("notice", format_args!("{what}: {numbers}: isolation fork stays"));
            self.introduce(id, lane);
        }
    }

    /// A template is to end with its last worker. Its requests run in classic mode meanwhile.
    pub(crate) fn let_template_leave(&mut self, id: GenerationId, lane: usize) {
        let down = ToFront::LaneDown { lane: self.lane_id(id, lane) };
        let Some(of_lane) = self.generations.lane_mut(id, lane) else { return };
        let Lane { template: Some(template), mailbox: Some(mailbox), .. } = of_lane else { return };
        template.leave(Instant::now());
        mailbox.slab.set_phase(Phase::Draining);
        send(&template.child.channel, &ToForker::Drain, &[]);
        self.front.send(&down, &[]);
    }
}

fn milliseconds(microseconds: u32) -> String {
    format!("{:.2} ms", f64::from(microseconds) / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_compared_that_nobody_has_left_to_us() {
        let compares = |got, is_ours, isolation| {
            let mut lane = Lane { isolation, ..Lane::classic(Instant::now()) };
            lane.begins_comparison(got, is_ours);
            lane.comparison.is_some()
        };
        assert!(compares(Isolation::Fork, true, Isolation::Auto));
        assert!(!compares(Isolation::Fork, false, Isolation::Auto), "the configuration says fork");
        assert!(!compares(Isolation::Fork, true, Isolation::Fork), "threads have ended its workers");
        assert!(!compares(Isolation::Userfaultfd, true, Isolation::Auto));
    }
}
