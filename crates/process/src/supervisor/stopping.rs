//! The end: of the server in order, or of everything at once.

use std::time::Instant;

use nix::sys::signal::Signal;
use wire::control::ToFront;

use super::{Outcome, Supervisor, log};
use crate::plan::{Slot, Stopping};
use crate::sys;

impl Supervisor {
    pub(super) fn stop(&mut self, why: &str) {
        self.stopping = self.stopping.further();
        self.reload.stop();
        match self.stopping {
            Stopping::Draining => {
                log("notice", format_args!("{why}: draining, at most {:?}", self.reload.plan().drain_timeout));
                self.deadline = Instant::now() + self.reload.plan().drain_timeout;
                self.tell_stopping();
                // The listeners among them: with the front's copies closed too, new connections are refused.
                self.service.front_descriptors.clear();
                match self.front {
                    Some(_) => self.tell_front(&ToFront::Drain, &[]),
                    None => self.end_forkers(),
                }
            }
            Stopping::Now => {
                if self.front.is_some() || self.has_forkers() {
                    log("warning", format_args!("{why}: ending now"));
                    self.outcome = Some(Outcome::CutOff);
                }
            }
            Stopping::No => {}
        }
    }

    fn has_forkers(&self) -> bool {
        self.generations
            .all()
            .any(|generation| (0..generation.lanes.len()).any(|lane| generation.forker(lane).is_some()))
    }

    /// The front has finished, or is gone: workers end when their lane is drained, a template with its last worker, a
    /// prototype with the last of its workers and templates.
    pub(super) fn end_forkers(&mut self) {
        for number in self.generations.ids() {
            self.end_generation(number);
        }
    }

    pub(super) fn finished(&mut self) -> Option<Outcome> {
        let outcome = self.outcome_now();
        if outcome.is_some() {
            // The last words of those that have just ended.
            self.pass_on_last_messages(&self.generations.ids());
        }
        outcome
    }

    fn outcome_now(&mut self) -> Option<Outcome> {
        if self.outcome.is_some() && self.stopping != Stopping::Draining {
            self.kill_everything();
            return self.outcome.take();
        }
        if self.stopping != Stopping::No && self.front.is_none() && !self.has_forkers() {
            return Some(self.outcome.take().unwrap_or(Outcome::Drained));
        }
        None
    }

    /// Ends all children and waits for them, so that nothing is left over. Prototypes first: their templates become ours,
    /// and then the templates' workers. What PHP code has started in the background and left to us is not waited for.
    fn kill_everything(&mut self) {
        for number in self.generations.ids() {
            let generation = &self.generations[number];
            let mut workers = Vec::new();
            for (lane, of_lane) in generation.lanes.iter().enumerate() {
                let live = |slot: &Slot| if let Slot::Live(pid) = *slot { Some(pid) } else { None };
                let from = workers.len();
                workers.extend(of_lane.mailbox.iter().flat_map(|mailbox| &mailbox.slots).filter_map(live));
                workers.extend(of_lane.retired.iter().map(|(pid, _)| *pid));
                workers[from..].iter().for_each(|&pid| self.kill_worker(number, lane, pid));
            }
            if let Some(prototype) = &generation.prototype {
                end(prototype.pid, true);
            }
            for lane in 1..generation.lanes.len() {
                self.kill_template(number, lane);
                generation.forker(lane).into_iter().for_each(|template| end(template.pid, false));
            }
            workers.into_iter().for_each(|pid| end(pid, false));
        }
        if let Some(front) = &self.front {
            end(front.pid, true);
        }
    }
}

/// Waits for a child's end, after killing it if it is `ours` from the start. A worker that its forker had reaped is no
/// child of ours.
fn end(pid: i32, ours: bool) {
    if ours {
        sys::kill(pid, Signal::SIGKILL);
    }
    if pid > 0 {
        let _ = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(pid), None);
    }
}
