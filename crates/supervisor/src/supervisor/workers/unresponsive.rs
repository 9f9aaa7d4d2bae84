//! Forkers that do not respond. A forker that is stopped, or hangs, reaps nobody: the front would wait for ever for the message
//! that a worker is dead. So forkers are pinged every few seconds, and one that does not respond is killed. Its workers die with
//! it and are reaped by the supervisor; the front fails what they ran, and another forker follows.
//!
//! | child | pinged | killed if |
//! |---|---|---|
//! | prototype | from `PrototypeReady` to `Drain` | it does not respond; it is not ready after [`MODULES`], or `boot_timeout` if that is longer |
//! | template, forker of a worker script | from `TemplateReady` to `Drain` | it does not respond. `boot_timeout` is for its boot |
//! | front | no | it leaves too many messages unread ([`crate::peers::channel`]); so are the others |
//!
//! Turns of the supervisor's own loop are counted, not time alone: where all processes of a machine or a container were
//! frozen together, nobody is to blame.

use std::time::{Duration, Instant};

use ipc::control::ToForker;
use nix::sys::signal::Signal;

use crate::lanes::generation::{Generation, GenerationId};
use crate::lanes::lane::CLASSIC;
use crate::logs::own::log;
use crate::os::sys;
use crate::peers::channel::send;
use crate::peers::liveness::PATIENCE;
use crate::supervisor::Supervisor;

/// How often forkers are looked at.
const TURN: Duration = Duration::from_secs(1);
/// How long the start of PHP's modules may take.
const MODULES: Duration = Duration::from_secs(60);

impl Generation {
    /// Pings a forker, when it is time. One that drains reads nothing; `drain_timeout` is for that.
    fn ping(&mut self, lane: usize) {
        if self.is_ending() || self.working_forker(lane).is_none() {
            return;
        }
        let Some(child) = self.forker_mut(lane) else { return };
        if child.liveness.turn() {
            send(&child.channel, &ToForker::Ping, &[]);
        }
    }

    /// A forker that is to be killed, once: its process, and why.
    fn unresponsive(&mut self, lane: usize) -> Option<(i32, String)> {
        let patience = self.application.boot_timeout.max(MODULES);
        let child = self.forker_mut(lane).filter(|child| child.pid > 0 && !child.liveness.is_killed)?;
        let why = match () {
            () if child.channel.is_overrun() => "it reads no messages".to_owned(),
            () if child.liveness.is_unresponsive() => format!("it has not replied for {:?}", TURN * PATIENCE),
            () if lane == CLASSIC && !child.ready && child.since.elapsed() > patience => {
                format!("PHP's modules have not started after {patience:?}")
            }
            () => return None,
        };
        child.liveness.is_killed = true;
        Some((child.pid, why))
    }
}

impl Supervisor {
    /// A forker has responded to a ping.
    pub(crate) fn has_responded(&mut self, id: GenerationId, lane: usize) {
        let forker = self.generations.get_mut(id).and_then(|generation| generation.forker_mut(lane));
        forker.into_iter().for_each(|child| child.liveness.answered());
    }

    /// Kills children that do not respond, or read no messages.
    pub(crate) fn end_unresponsive(&mut self) {
        let now = Instant::now();
        let is_turn = now >= self.next_ping;
        if is_turn {
            self.next_ping = now + TURN;
        }
        for (id, lane) in self.all_lanes() {
            if is_turn {
                self.look_at_slab(id, lane);
                self.generations.get_mut(id).into_iter().for_each(|generation| generation.ping(lane));
            }
            let generation = self.generations.get_mut(id);
            let Some((pid, why)) = generation.and_then(|generation| generation.unresponsive(lane)) else { continue };
            let what = self.describe(id, lane);
            log("error", format_args!("{what}: process {pid}, which forks its workers, is killed: {why}"));
            match lane {
                CLASSIC => sys::kill(pid, Signal::SIGKILL),
                _ => self.kill_template(id, lane),
            }
        }
        self.front.end_unresponsive();
        self.end_unresponsive_acme();
        self.end_unresponsive_watcher();
        self.end_unresponsive_stores();
        self.end_unresponsive_followers();
    }
}
