//! Deaths of children, and of what they leave to this process.

use std::time::Instant;

use nix::sys::signal::Signal;
use wire::layout::Phase;

use super::generation::{GenerationId, Stage, Warmth};
use super::lane::CLASSIC;
use super::messages::WorkerDeath;
use super::{Outcome, Supervisor, log};
use crate::plan::{Ending, Slot};
use crate::sys::{self, Reaped};

impl Supervisor {
    pub(super) fn reap(&mut self) {
        while let Reaped::Dead(pid, status) = sys::reap(None) {
            let ending = Ending::from_status(status);
            self.errands.was_reaped(pid);
            if self.front.is_process(pid) {
                self.listen_to_front();
                self.front_died(ending);
                continue;
            }
            match self.forker_of(pid) {
                Some((id, CLASSIC)) => {
                    self.listen_to_forker(id, CLASSIC);
                    self.prototype_died(id, ending);
                }
                // Left to us by its prototype, which died before it.
                Some((id, lane)) => self.template_died(id, lane, &ending),
                None => self.orphan_died(pid, status),
            }
        }
    }

    fn forker_of(&self, pid: i32) -> Option<(usize, usize)> {
        let is_it =
            |&(id, lane): &(usize, usize)| self.generations[id].forker(lane).is_some_and(|child| child.pid == pid);
        self.all_lanes().into_iter().find(is_it)
    }

    /// A worker whose forker died before it came to us.
    fn orphan_died(&mut self, pid: i32, status: i32) {
        for (id, lane) in self.all_lanes() {
            let of_lane = &mut self.generations[id].lanes[lane];
            of_lane.retired.retain(|(retired, _)| *retired != pid);
            let Some(mailbox) = &of_lane.mailbox else { continue };
            if let Some(slot) = mailbox.slots.iter().position(|slot| *slot == Slot::Live(pid)) {
                let death = WorkerDeath { slot: slot as u32, pid, status, epoch: self.front.epoch() };
                self.worker_died(id, lane, death);
                return;
            }
        }
    }

    fn prototype_died(&mut self, id: GenerationId, ending: Ending) {
        let name = self.generations[id].application.name.clone();
        let generation = &mut self.generations[id];
        let generation_is_ending = generation.is_ending();
        let Some(child) = generation.prototype.take() else { return };
        // Also a front that drains has to learn whose requests are lost.
        self.adopt_templates(id);
        if !self.shutdown.is_begun() && !generation_is_ending {
            log("error", format_args!("the prototype of {name} (process {}) {ending}", child.pid));
            if !child.ready && !self.generations[id].lanes[CLASSIC].served && !self.announced {
                self.shutdown.fail(Outcome::NotBooted(name, "PHP".to_owned()));
                return;
            }
            self.reload
                .generation_failed(id, &format_args!("the prototype of {name} {ending}; PHP's message is in the log"));
            self.delay(id, CLASSIC, child.since.elapsed(), child.ready);
        }
        self.adopt_orphans(id, CLASSIC);
    }

    /// The workers of a dead forker are our children now (it had one thread and was reaped, so they have been given
    /// to us) and have been sent SIGKILL. Those that it had reaped itself without telling are no children of ours.
    pub(super) fn adopt_orphans(&mut self, id: GenerationId, lane: usize) {
        let Some(mailbox) = &self.generations[id].lanes[lane].mailbox else { return };
        for (slot, state) in mailbox.slots.clone().into_iter().enumerate() {
            let dead = match state {
                Slot::Live(pid) => match sys::reap(Some(pid)) {
                    Reaped::Dead(pid, status) => Some((pid, status)),
                    Reaped::NoChild => Some((pid, Signal::SIGKILL as i32)),
                    Reaped::Nobody => {
                        self.kill_worker(id, lane, pid);
                        None
                    }
                },
                // Forked or not, we were not told. If it was, it died with its parent, long before a new forker has
                // started PHP's modules, or booted, and could be asked for this slot.
                Slot::Asked => Some((0, Signal::SIGKILL as i32)),
                Slot::Empty | Slot::Leaving => None,
            };
            if let Some((pid, status)) = dead {
                let death = WorkerDeath { slot: slot as u32, pid, status, epoch: self.front.epoch() };
                self.worker_died(id, lane, death);
            }
        }
    }

    pub(super) fn front_died(&mut self, ending: Ending) {
        let Some(front) = self.front.died() else { return };
        if self.shutdown.is_begun() {
            if self.shutdown.is_draining() && ending != Ending::Exited(0) {
                log("error", format_args!("the front {ending} while draining"));
                self.shutdown.fail(Outcome::CutOff);
            }
            self.end_forkers();
            return;
        }
        log("error", format_args!("the front (process {}) {ending}; its connections are lost", front.pid));
        if !front.ready && !self.announced {
            self.shutdown.fail(Outcome::NoFront);
            return;
        }
        self.front.restart_after(&front, Instant::now());
        // Its workers end after their request, whose answer nobody can read any more.
        for lane in self.generations.all_mut().flat_map(|generation| &mut generation.lanes) {
            if let Some(mailbox) = lane.mailbox.take() {
                mailbox.slab.set_phase(Phase::Closed);
                let pid = |slot: &Slot| if let Slot::Live(pid) = *slot { Some(pid) } else { None };
                lane.retired.extend(mailbox.slots.iter().filter_map(pid).map(|pid| (pid, Instant::now())));
            }
        }
        // What drained had its requests in that front, and what was warmed up too.
        for id in self.generations.ids() {
            if self.generations[id].warmth == Warmth::Asked {
                self.generations[id].warmth = Warmth::Cold;
            }
            if matches!(self.generations[id].stage, Stage::Draining(_)) {
                self.end_generation(id);
            }
        }
    }
}
