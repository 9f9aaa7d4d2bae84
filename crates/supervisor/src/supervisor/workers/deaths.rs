//! Deaths of children, and of processes that become children of the supervisor because their parent has died.

use std::time::Instant;

use nix::sys::signal::Signal;

use crate::lanes::generation::{GenerationId, Stage};
use crate::lanes::lane::CLASSIC;
use crate::lanes::mailbox::WorkerDeath;
use crate::lanes::template::Death;
use crate::logs::own::{log, log_again};
use crate::os::exited::Ending;
use crate::os::sys::{self, Reaped};
use crate::plan::Slot;
use crate::shutdown::Outcome;
use crate::supervisor::Supervisor;

impl Supervisor {
    pub(crate) fn reap(&mut self) {
        while let Reaped::Dead(pid, status) = sys::reap(None) {
            let ending = Ending::from_status(status);
            self.errands.was_reaped(pid);
            if self.front.is_process(pid) {
                self.listen_to_front();
                self.front_died(ending);
                continue;
            }
            if self.acme.is_process(pid) {
                self.listen_to_acme();
                self.acme_died(ending);
                continue;
            }
            if self.following.is_process(pid) {
                self.listen_to_watcher();
                self.watcher_died(ending);
                continue;
            }
            if self.stores.is_process(pid) {
                self.listen_to_stores();
                self.store_died(pid, ending);
                continue;
            }
            if self.followers.is_process(pid) {
                self.listen_to_followers();
                self.follower_died(pid, ending);
                continue;
            }
            match self.forker_of(pid) {
                Some((id, CLASSIC)) => {
                    self.listen_to_forker(id, CLASSIC);
                    self.prototype_died(id, ending);
                }
                // Its prototype died before it, so it is a child of this process now.
                Some((id, lane)) => self.template_died(id, lane, &Death::Ended(ending)),
                None => self.orphan_died(pid, status),
            }
        }
    }

    fn forker_of(&self, pid: i32) -> Option<(GenerationId, usize)> {
        let is_it = |&(id, lane): &(GenerationId, usize)| {
            let forker = self.generations.get(id).and_then(|generation| generation.forker(lane));
            forker.is_some_and(|child| child.pid == pid)
        };
        self.all_lanes().into_iter().find(is_it)
    }

    /// A worker was reaped here because its forker had died before.
    fn orphan_died(&mut self, pid: i32, status: i32) {
        for (id, lane) in self.all_lanes() {
            let Some(of_lane) = self.generations.lane_mut(id, lane) else { continue };
            of_lane.retired.retain(|(retired, _)| *retired != pid);
            let is_it = |(_, live): &(usize, i32)| *live == pid;
            let found = of_lane.mailbox.as_ref().and_then(|mailbox| mailbox.live_workers().find(is_it));
            if let Some((slot, _)) = found {
                let death = WorkerDeath { slot: slot as u32, pid, status, epoch: self.front.epoch(), processor_us: 0 };
                return self.worker_died(id, lane, death);
            }
        }
    }

    fn prototype_died(&mut self, id: GenerationId, ending: Ending) {
        let Some(generation) = self.generations.get_mut(id) else { return };
        let (name, is_ending) = (generation.application.name.clone(), generation.is_ending());
        let has_served = generation.lanes.get(CLASSIC).is_some_and(|lane| lane.served);
        let Some(child) = generation.prototype.take() else { return };
        // A front that drains has to learn too whose requests are lost.
        self.adopt_templates(id);
        if !self.shutdown.is_begun() && !is_ending {
            let what = format!("the prototype of {name}");
            log_again("error", &what, format_args!("{what} {ending}"), format_args!(" (process {})", child.pid));
            if !child.ready && !has_served && !self.announced {
                return self.shutdown.fail(Outcome::NotBooted(name, "PHP".to_owned()));
            }
            let refusal = format!("the prototype of {name} {ending}{}", ending.hint());
            self.reload.generation_failed(id, &refusal);
            self.delay(id, CLASSIC, child.since.elapsed(), child.ready);
        }
        self.adopt_orphans(id, CLASSIC);
    }

    /// Reaps the workers of a dead forker. The forker had one thread and was reaped, so its workers are children of the supervisor
    /// now; the kernel has sent them SIGKILL. A worker that the forker had reaped without a message is no child.
    pub(crate) fn adopt_orphans(&mut self, id: GenerationId, lane: usize) {
        let mailbox = self.generations.lane(id, lane).and_then(|lane| lane.mailbox.as_ref());
        let slots = mailbox.map_or_else(Vec::new, |mailbox| mailbox.slots.clone());
        for (slot, state) in slots.into_iter().enumerate() {
            let dead = match state {
                Slot::Live(pid) => match sys::reap(Some(pid)) {
                    Reaped::Dead(pid, status) => Some((pid, status)),
                    Reaped::NoChild => Some((pid, Signal::SIGKILL as i32)),
                    Reaped::Nobody => {
                        self.kill_worker(id, lane, pid);
                        None
                    }
                },
                // No message says whether it was forked. If it was, it died with its parent, long before a new forker
                // has booted and can be asked for this slot.
                Slot::Asked => Some((0, Signal::SIGKILL as i32)),
                Slot::Empty | Slot::Leaving => None,
            };
            if let Some((pid, status)) = dead {
                let death = WorkerDeath { slot: slot as u32, pid, status, epoch: self.front.epoch(), processor_us: 0 };
                self.worker_died(id, lane, death);
            }
        }
    }

    pub(crate) fn front_died(&mut self, ending: Ending) {
        let Some(front) = self.front.died() else { return };
        if self.shutdown.is_begun() {
            if self.shutdown.is_draining() && ending != Ending::Exited(0) {
                log("error", format_args!("the front {ending} while draining"));
                self.shutdown.fail(Outcome::CutOff);
            }
            self.end_forkers();
            return;
        }
        let then = format!(" (process {}); its connections are lost", front.pid);
        log_again("error", "front", format_args!("the front {ending}"), format_args!("{then}"));
        if !front.ready && !self.announced {
            self.shutdown.fail(Outcome::NoFront);
            return;
        }
        self.front.restart_after(&front, Instant::now());
        self.certificates_taken(true);
        self.errands.end_verification();
        for id in self.generations.ids() {
            let Some(generation) = self.generations.get_mut(id) else { continue };
            generation.front_died(Instant::now());
            // The requests of a generation that drains were in that front.
            if matches!(generation.stage, Stage::Draining(_)) {
                self.end_generation(id);
            }
        }
    }
}
