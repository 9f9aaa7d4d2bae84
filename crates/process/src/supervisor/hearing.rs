//! Whether children still hear. A forker that is stopped, or hangs, reaps nobody: the front would wait for ever for the word that
//! a worker is dead. So forkers are asked every few seconds, and one that does not answer is killed. Its workers die with it
//! and are reaped by the supervisor; the front fails what they ran, and another forker follows.
//!
//! | child | asked | killed if |
//! |---|---|---|
//! | prototype | from `PrototypeReady` to `Drain` | it does not answer; it is not ready after [`MODULES`], or `boot_timeout` if that is longer |
//! | template, forker of a worker script | from `TemplateReady` to `Drain` | it does not answer. `boot_timeout` is for its boot |
//! | front | no | it leaves too many messages unread ([`crate::channel`]); so are the others |
//!
//! Turns of the supervisor's own loop are counted, not time alone: where all processes of a machine or a container were
//! frozen together, nobody is to blame.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use wire::control::ToForker;

use super::child::Forker;
use super::generation::GenerationId;
use super::lane::CLASSIC;
use super::liveness::PATIENCE;
use super::{Supervisor, log, send};
use crate::sys;

/// How often forkers are looked at.
const TURN: Duration = Duration::from_secs(1);
/// How long the start of PHP's modules may take.
const MODULES: Duration = Duration::from_secs(60);

impl Supervisor {
    fn forker_mut(&mut self, id: GenerationId, lane: usize) -> Option<&mut Forker> {
        let generation = self.generations.get_mut(id)?;
        if lane == CLASSIC {
            return generation.prototype.as_mut();
        }
        Some(&mut generation.lanes.get_mut(lane)?.template.as_mut()?.child)
    }

    /// A forker has answered.
    pub(super) fn has_answered(&mut self, id: GenerationId, lane: usize) {
        if let Some(child) = self.forker_mut(id, lane) {
            child.liveness.answered();
        }
    }

    /// Kills children that do not hear.
    pub(super) fn end_deaf(&mut self) {
        let now = Instant::now();
        let is_turn = now >= self.next_hearing;
        if is_turn {
            self.next_hearing = now + TURN;
        }
        for (id, lane) in self.all_lanes() {
            if is_turn {
                self.look_at_slab(id, lane);
                self.ask(id, lane);
            }
            let patience = self.generations[id].application.boot_timeout.max(MODULES);
            let Some(child) = self.forker_mut(id, lane).filter(|child| child.pid > 0 && !child.liveness.is_killed)
            else {
                continue;
            };
            let why = match () {
                () if child.channel.is_overrun() => "it reads no messages".to_owned(),
                () if child.liveness.is_unresponsive() => format!("it has not replied for {:?}", TURN * PATIENCE),
                () if lane == CLASSIC && !child.ready && child.since.elapsed() > patience => {
                    format!("PHP's modules have not started after {patience:?}")
                }
                () => continue,
            };
            child.liveness.is_killed = true;
            let pid = child.pid;
            log(
                "error",
                format_args!("{}: process {pid}, which forks its workers, is killed: {why}", self.describe(id, lane)),
            );
            match lane {
                CLASSIC => sys::kill(pid, Signal::SIGKILL),
                _ => self.kill_template(id, lane),
            }
        }
        self.front.end_unresponsive();
    }

    /// Asks a forker whether it answers, when it is time. One that drains hears nothing; `drain_timeout` is for that.
    fn ask(&mut self, id: GenerationId, lane: usize) {
        let generation = &self.generations[id];
        if generation.is_ending() || generation.working_forker(lane).is_none() {
            return;
        }
        let Some(child) = self.forker_mut(id, lane) else { return };
        if child.liveness.turn() {
            send(&child.channel, &ToForker::Ping, &[]);
        }
    }
}
