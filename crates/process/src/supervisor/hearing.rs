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

use super::generation::{CLASSIC, Forker};
use super::{Supervisor, log, send};
use crate::sys;

/// How often forkers are looked at.
const TURN: Duration = Duration::from_secs(1);
/// Turns between an answer and the next question.
const PAUSE: u32 = 5;
/// Turns that an answer may take.
const PATIENCE: u32 = 10;
/// How long the start of PHP's modules may take.
const MODULES: Duration = Duration::from_secs(60);

/// What is known of whether a child hears.
#[derive(Default)]
pub(super) struct Hearing {
    is_asked: bool,
    /// Since it was asked, or has answered.
    turns: u32,
    is_killed: bool,
}

impl Hearing {
    /// Another turn has passed. True: it is to be asked now.
    fn turn(&mut self) -> bool {
        self.turns += 1;
        let is_due = !self.is_asked && self.turns >= PAUSE;
        if is_due {
            (self.is_asked, self.turns) = (true, 0);
        }
        is_due
    }

    fn is_deaf(&self) -> bool {
        self.is_asked && self.turns >= PATIENCE
    }
}

impl Supervisor {
    fn forker_mut(&mut self, number: usize, lane: usize) -> Option<&mut Forker> {
        let generation = self.generations.get_mut(number)?;
        if lane == CLASSIC {
            return generation.prototype.as_mut();
        }
        Some(&mut generation.lanes.get_mut(lane)?.template.as_mut()?.child)
    }

    /// A forker has answered.
    pub(super) fn has_answered(&mut self, number: usize, lane: usize) {
        if let Some(child) = self.forker_mut(number, lane) {
            child.hearing = Hearing { is_killed: child.hearing.is_killed, ..Hearing::default() };
        }
    }

    /// Kills children that do not hear.
    pub(super) fn end_deaf(&mut self) {
        let now = Instant::now();
        let is_turn = now >= self.next_hearing;
        if is_turn {
            self.next_hearing = now + TURN;
        }
        for (number, lane) in self.all_lanes() {
            if is_turn {
                self.look_at_slab(number, lane);
                self.ask(number, lane);
            }
            let patience = self.generations[number].application.boot_timeout.max(MODULES);
            let Some(child) = self.forker_mut(number, lane).filter(|child| child.pid > 0 && !child.hearing.is_killed)
            else {
                continue;
            };
            let why = match () {
                () if child.channel.is_overrun() => "it reads no messages".to_owned(),
                () if child.hearing.is_deaf() => format!("it has not replied for {:?}", TURN * PATIENCE),
                () if lane == CLASSIC && !child.ready && child.since.elapsed() > patience => {
                    format!("PHP's modules have not started after {patience:?}")
                }
                () => continue,
            };
            child.hearing.is_killed = true;
            let pid = child.pid;
            log(
                "error",
                format_args!(
                    "{}: process {pid}, which forks its workers, is killed: {why}",
                    self.describe(number, lane)
                ),
            );
            match lane {
                CLASSIC => sys::kill(pid, Signal::SIGKILL),
                _ => self.kill_template(number, lane),
            }
        }
        let Some(front) = self.front.as_mut().filter(|front| front.channel.is_overrun() && !front.hearing.is_killed)
        else {
            return;
        };
        front.hearing.is_killed = true;
        log("error", format_args!("the front (process {}) is killed: it reads no messages", front.pid));
        sys::kill(front.pid, Signal::SIGKILL);
    }

    /// Asks a forker whether it answers, when it is time. One that drains hears nothing; `drain_timeout` is for that.
    fn ask(&mut self, number: usize, lane: usize) {
        let generation = &self.generations[number];
        if generation.is_ending() || generation.working_forker(lane).is_none() {
            return;
        }
        let Some(child) = self.forker_mut(number, lane) else { return };
        if child.hearing.turn() {
            send(&child.channel, &ToForker::Ping, &[]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_answers_is_never_deaf_and_who_does_not_is() {
        let mut hearing = Hearing::default();
        for _ in 0..1000 {
            if hearing.turn() {
                hearing = Hearing::default();
            }
            assert!(!hearing.is_deaf());
        }
        let turns = (1..).find(|_| {
            hearing.turn();
            hearing.is_deaf()
        });
        assert!(turns.is_some_and(|turns| turns <= PAUSE + PATIENCE), "{turns:?}");
    }
}
