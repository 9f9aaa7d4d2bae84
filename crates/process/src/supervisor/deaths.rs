//! Deaths of children, and of what they leave to this process.

use std::time::Instant;

use nix::sys::signal::Signal;
use wire::control::{Kind, Message};
use wire::layout::Phase;

use super::{Outcome, Supervisor, log};
use crate::plan::{Ending, HEALTHY_AFTER, Slot, Stopping};
use crate::sys::{self, Reaped};

impl Supervisor {
    pub(super) fn reap(&mut self) {
        while let Reaped::Dead(pid, status) = sys::reap(None) {
            if self.front.as_ref().is_some_and(|front| front.pid == pid) {
                self.listen_to_front();
                self.front_died(Ending::from_status(status));
            } else if let Some(number) = self.prototype_of(pid) {
                self.listen_to_prototype(number);
                self.prototype_died(number, Ending::from_status(status));
            } else {
                self.orphan_died(pid, status);
            }
        }
    }

    pub(super) fn prototype_of(&self, pid: i32) -> Option<usize> {
        self.applications.iter().position(|app| app.prototype.as_ref().is_some_and(|child| child.pid == pid))
    }

    /// Ends workers of earlier fronts that take longer than a drain may.
    pub(super) fn end_retired(&self) {
        for (number, running) in self.applications.iter().enumerate() {
            for (pid, since) in &running.retired {
                if since.elapsed() > self.service.drain_timeout {
                    self.kill_worker(number, *pid);
                }
            }
        }
    }

    /// A worker whose prototype died before it came to us.
    pub(super) fn orphan_died(&mut self, pid: i32, status: i32) {
        for number in 0..self.applications.len() {
            self.applications[number].retired.retain(|(retired, _)| *retired != pid);
            let Some(lane) = &self.applications[number].lane else { continue };
            if let Some(slot) = lane.slots.iter().position(|slot| *slot == Slot::Live(pid)) {
                let message = Message { pid, status, ..self.message(Kind::Dead, number, slot as u32) };
                self.worker_died(number, &message);
                return;
            }
        }
    }

    pub(super) fn prototype_died(&mut self, number: usize, ending: Ending) {
        let name = self.service.applications[number].name.clone();
        let running = &mut self.applications[number];
        let Some(child) = running.prototype.take() else { return };
        if self.stopping != Stopping::No {
            // Also a front that drains has to learn whose requests are lost.
            self.adopt_orphans(number);
            return;
        }
        log("error", format_args!("PHP of {name} (process {}) {ending}", child.pid));
        if !child.ready && !running.served && !self.announced {
            self.outcome = Some(Outcome::NotBooted(name));
            return;
        }
        self.delay(number, child.since.elapsed(), child.ready);
        self.adopt_orphans(number);
    }

    /// The workers of a dead prototype are our children now (it had one thread and was reaped, so they have been given
    /// to us) and have been sent SIGKILL. Those that it had reaped itself without telling are no children of ours.
    pub(super) fn adopt_orphans(&mut self, number: usize) {
        let Some(lane) = &self.applications[number].lane else { return };
        for (slot, state) in lane.slots.clone().into_iter().enumerate() {
            let dead = match state {
                Slot::Live(pid) => match sys::reap(Some(pid)) {
                    Reaped::Dead(pid, status) => Some((pid, status)),
                    Reaped::NoChild => Some((pid, Signal::SIGKILL as i32)),
                    Reaped::Nobody => {
                        self.kill_worker(number, pid);
                        None
                    }
                },
                // Forked or not, we were not told. If it was, it died with its parent, long before a new prototype has
                // started PHP's modules and could be asked for this slot.
                Slot::Asked => Some((0, Signal::SIGKILL as i32)),
                Slot::Empty | Slot::Leaving => None,
            };
            if let Some((pid, status)) = dead {
                let message = Message { pid, status, ..self.message(Kind::Dead, number, slot as u32) };
                self.worker_died(number, &message);
            }
        }
    }

    /// Whether all workers of an earlier prototype are reaped.
    pub(super) fn no_orphans(&self, number: usize) -> bool {
        let lane = self.applications[number].lane.as_ref();
        lane.is_none_or(|lane| !lane.slots.iter().any(|slot| matches!(slot, Slot::Live(_) | Slot::Asked)))
    }

    pub(super) fn front_died(&mut self, ending: Ending) {
        let Some(front) = self.front.take() else { return };
        if self.stopping != Stopping::No {
            if self.stopping == Stopping::Draining && ending != Ending::Exited(0) {
                log("error", format_args!("the front {ending} while draining"));
                self.outcome = Some(Outcome::CutOff);
            }
            self.end_prototypes();
            return;
        }
        log("error", format_args!("the front (process {}) {ending}; its connections are lost", front.pid));
        if !front.ready && !self.announced {
            self.outcome = Some(Outcome::NoFront);
            return;
        }
        let lived = front.since.elapsed();
        self.front_not_before = Instant::now() + self.front_back_off.died(lived, lived >= HEALTHY_AFTER / 10);
        // Its workers end after their request, whose answer nobody can read any more.
        for running in &mut self.applications {
            if let Some(lane) = running.lane.take() {
                lane.slab.set_phase(Phase::Closed);
                let pid = |slot: &Slot| if let Slot::Live(pid) = *slot { Some(pid) } else { None };
                running.retired.extend(lane.slots.iter().filter_map(pid).map(|pid| (pid, Instant::now())));
            }
        }
    }
}
