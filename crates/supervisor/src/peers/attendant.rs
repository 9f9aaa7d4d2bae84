//! A process that works for an application beside its generations. It is started again when it ends, and killed when something else is wanted
//! or when it reads no messages.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use ipc::control::Message;
use nix::sys::signal::Signal;

use crate::logs::output::Output;
use crate::logs::own::{log, log_again};
use crate::os::fork_limits::explain_own;
use crate::os::sys;
use crate::peers::channel::Received;
use crate::peers::child::Child;
use crate::peers::restart::Restart;

pub(crate) struct Attendant<Out, In> {
    pub(crate) child: Option<Child<Out, In>>,
    /// It was told to end.
    is_ended: bool,
    restart: Restart,
    pub(crate) output: Output,
}

impl<Out: Message, In: Message> Attendant<Out, In> {
    pub(crate) fn new(output: Output, now: Instant) -> Attendant<Out, In> {
        Attendant { child: None, is_ended: false, restart: Restart::new(now), output }
    }

    pub(crate) fn kill(&mut self) {
        self.child.iter().for_each(|child| sys::kill(child.pid, Signal::SIGKILL));
        self.is_ended = self.child.is_some();
    }

    #[cfg(test)]
    pub(crate) fn is_told_to_end(&self) -> bool {
        self.is_ended
    }

    /// Whether it is missing and may be started.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.child.is_none() && self.restart.is_due(now)
    }

    /// When it may be started, if it is missing and may not be yet.
    pub(crate) fn wakes(&self, now: Instant) -> Option<Instant> {
        self.child.is_none().then(|| self.restart.wakes(now)).flatten()
    }

    /// It was started, or could not be. `what` names it in the log.
    pub(crate) fn started(&mut self, child: io::Result<Child<Out, In>>, what: &str, now: Instant) {
        match child {
            Ok(child) => self.child = Some(child),
            Err(error) => {
                let why = explain_own(&error);
                log_again("error", what, format_args!("{what} cannot be started: {why}"), format_args!(""));
                self.restart.failed(None, now);
            }
        }
    }

    /// The next message that it has sent, if there is one. What it sends wrongly ends it.
    pub(crate) fn receive(&mut self, what: &str) -> Option<(In, Vec<OwnedFd>)> {
        match self.child.as_ref()?.channel.receive() {
            Ok(Received::Message(message, attached)) => Some((message, attached)),
            Ok(Received::Nothing | Received::Closed) => None,
            Err(error) => {
                log("error", format_args!("a message of {what}: {error}"));
                self.kill();
                self.restart.failed(None, Instant::now());
                None
            }
        }
    }

    /// Kills it if it reads no messages.
    pub(crate) fn end_unresponsive(&mut self, what: &str) {
        if self.child.as_ref().is_some_and(|child| child.channel.is_overrun()) && !self.is_ended {
            log("error", format_args!("{what} is killed: it reads no messages"));
            self.kill();
            self.restart.failed(None, Instant::now());
        }
    }

    /// A process was reaped. Says whether that was expected; nothing, if it was not this one.
    pub(crate) fn died(&mut self, pid: i32, now: Instant) -> Option<bool> {
        let child = self.child.take_if(|child| child.pid == pid)?;
        let is_expected = std::mem::take(&mut self.is_ended);
        if !is_expected {
            let lived = now.saturating_duration_since(child.since);
            self.restart.died(lived, false, now);
        }
        Some(is_expected)
    }
}
