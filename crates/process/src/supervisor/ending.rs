//! The end of generations: drained, or killed because it takes too long.

use std::time::Instant;

use nix::sys::signal::Signal;
use wire::control::{ToForker, ToFront};
use wire::layout::Phase;

use super::generation::{GenerationId, Stage};
use super::lane::CLASSIC;
use super::{Supervisor, log, send};
use crate::sys;

impl Supervisor {
    /// Lets the processes of a generation end: its lanes are drained, or nobody needs their answers.
    pub(super) fn end_generation(&mut self, id: GenerationId) {
        self.generations[id].stage = Stage::Ending(Instant::now());
        for lane in 0..self.generations[id].lanes.len() {
            let generation = &self.generations[id];
            if let Some(mailbox) = &generation.lanes[lane].mailbox {
                mailbox.slab.set_phase(Phase::Draining);
            }
            if let Some(forker) = generation.forker(lane) {
                send(&forker.channel, &ToForker::Drain, &[]);
                // It runs the application's code, and would hear of this after that.
                if !forker.ready && lane != CLASSIC {
                    self.kill_template(id, lane);
                }
            }
        }
    }

    /// Ends a generation at once; the front refuses what waits there. Its templates and workers die with the prototype and
    /// are reaped by us.
    pub(super) fn kill_generation(&mut self, id: GenerationId) {
        self.front.send(&ToFront::GiveUp { generation: id as u32 }, &[]);
        let generation = &mut self.generations[id];
        generation.stage = Stage::Killed(Instant::now());
        match &generation.prototype {
            Some(prototype) => sys::kill(prototype.pid, Signal::SIGKILL),
            None => (0..generation.lanes.len()).for_each(|lane| self.kill_template(id, lane)),
        }
    }

    /// Ends generations that drain or end for too long.
    pub(super) fn end_overdue_generations(&mut self) {
        let (now, patience) = (Instant::now(), self.reload.plan().drain_timeout);
        for id in self.generations.ids() {
            if self.generations[id].deadline(patience).is_none_or(|deadline| now < deadline) {
                continue;
            }
            let generation = &self.generations[id];
            let (name, ordinal) = (&generation.application.name, generation.ordinal);
            log(
                "warning",
                format_args!("{name}, generation {ordinal}: not drained after {patience:?}; its processes are killed"),
            );
            self.kill_generation(id);
        }
    }

    /// Takes generations off the list when the last of their processes is reaped.
    pub(super) fn forget_generations(&mut self) {
        for id in self.generations.ids() {
            if self.generations[id].is_ending() && self.generations[id].is_gone() {
                self.pass_on_last_output(&[id]);
                self.generations.remove(id);
            }
        }
    }

    /// The front has no request of a generation left.
    pub(super) fn generation_retired(&mut self, id: GenerationId) {
        if self.generations.get(id).is_some_and(|one| matches!(one.stage, Stage::Draining(_))) {
            self.end_generation(id);
        }
    }
}
