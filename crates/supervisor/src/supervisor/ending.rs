//! The end of generations: drained, or killed because it takes too long.

use std::time::Instant;

use ipc::control::{ToForker, ToFront};
use ipc::layout::Phase;
use nix::sys::signal::Signal;

use crate::lanes::generation::{Generation, GenerationId, Stage};
use crate::lanes::lane::CLASSIC;
use crate::logs::own::log;
use crate::os::sys;
use crate::peers::channel::send;
use crate::supervisor::Supervisor;

impl Supervisor {
    /// Lets the processes of a generation end: its lanes are drained, or nobody needs their responses.
    pub(crate) fn end_generation(&mut self, id: GenerationId) {
        let Some(generation) = self.generations.get_mut(id) else { return };
        generation.stage = Stage::Ending(Instant::now());
        let mut booting = Vec::new();
        for (number, lane) in generation.lanes.iter().enumerate() {
            lane.mailbox.iter().for_each(|mailbox| mailbox.slab.set_phase(Phase::Draining));
            if let Some(forker) = generation.forker(number) {
                send(&forker.channel, &ToForker::Drain, &[]);
                // A template that boots runs the application's code, and would read the message after that.
                booting.extend(Some(number).filter(|_| !forker.ready && number != CLASSIC));
            }
        }
        booting.into_iter().for_each(|lane| self.kill_template(id, lane));
    }

    /// Ends a generation at once; the front refuses the requests that wait there. Templates and workers die with the prototype, and
    /// the supervisor reaps them.
    pub(crate) fn kill_generation(&mut self, id: GenerationId) {
        self.front.send(&ToFront::GiveUp { generation: id }, &[]);
        let Some(generation) = self.generations.get_mut(id) else { return };
        generation.stage = Stage::Killed(Instant::now());
        let lanes = generation.lanes.len();
        match &generation.prototype {
            Some(prototype) => sys::kill(prototype.pid, Signal::SIGKILL),
            None => (0..lanes).for_each(|lane| self.kill_template(id, lane)),
        }
    }

    /// Ends generations that drain or end for too long.
    pub(crate) fn end_overdue_generations(&mut self) {
        let (now, patience) = (Instant::now(), self.reload.plan().drain_timeout);
        for id in self.generations.ids() {
            let is_overdue = |one: &&Generation| one.deadline(patience).is_some_and(|deadline| now >= deadline);
            let Some(generation) = self.generations.get(id).filter(is_overdue) else { continue };
            let (name, ordinal) = (&generation.application.name, generation.ordinal);
            log(
                "warning",
                format_args!("{name}, generation {ordinal}: not drained after {patience:?}; its processes are killed"),
            );
            self.kill_generation(id);
        }
    }

    /// Takes generations off the list when the last of their processes is reaped.
    pub(crate) fn forget_generations(&mut self) {
        for id in self.generations.ids() {
            if self.generations.get(id).is_some_and(|one| one.is_ending() && one.is_gone()) {
                self.pass_on_last_output(&[id]);
                self.generations.remove(id);
                self.following.keep(&self.generations.ids());
                let generations = &self.generations;
                let is_served = |name: &str| generations.all().any(|one| one.application.name == name);
                self.data_caches.keep_only(is_served);
                self.stores.keep_only(is_served);
            }
        }
    }

    /// The front has no request of a generation left.
    pub(crate) fn generation_retired(&mut self, id: GenerationId) {
        if self.generations.get(id).is_some_and(|one| matches!(one.stage, Stage::Draining(_))) {
            self.end_generation(id);
        }
    }
}
