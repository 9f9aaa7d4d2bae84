//! The process that orders certificates from an authority (ACME). It has a user of its own, whose files nobody else reads: the account
//! and the keys. It writes certificates into its directory, where the child that looks at files of certificates finds them, and says what
//! the front is to respond to the authority.
//!
//! It runs if the plan has settings for it. Without it, and without the authority, everything else goes on.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use ipc::control::{FromAcme, ToAcme, ToFront};
use nix::sys::signal::Signal;

use crate::logs::output::Output;
use crate::logs::own::{log, log_again};
use crate::os::capabilities;
use crate::os::exited::Ending;
use crate::os::fork_limits::explain_own;
use crate::os::sys;
use crate::peers::boot;
use crate::peers::channel::send;
use crate::peers::channel::{Channel, Received};
use crate::peers::child::Child;
use crate::peers::restart::Restart;
use crate::settings::drafts::AcmeDraft;
use crate::supervisor::Supervisor;

/// Its name in the log.
const PROCESS: &str = "the process that orders certificates";

/// The process, and what it has said.
pub(crate) struct Acme {
    wanted: Option<AcmeDraft>,
    child: Option<Child<ToAcme, FromAcme>>,
    /// It was told to end, because its settings have changed.
    is_ended: bool,
    restart: Restart,
    /// What the front is to respond to the authority, and its number.
    answers: Option<(u64, OwnedFd)>,
    output: Output,
}

impl Acme {
    pub(crate) fn new(wanted: Option<AcmeDraft>, now: Instant) -> io::Result<Acme> {
        Ok(Acme {
            wanted,
            child: None,
            is_ended: false,
            restart: Restart::new(now),
            answers: None,
            output: Output::of_acme()?,
        })
    }

    pub(crate) fn child(&self) -> Option<&Child<ToAcme, FromAcme>> {
        self.child.as_ref()
    }

    pub(crate) fn is_process(&self, pid: i32) -> bool {
        self.child.as_ref().is_some_and(|child| child.pid == pid)
    }

    pub(crate) fn output(&self) -> &Output {
        &self.output
    }

    pub(crate) fn output_mut(&mut self) -> &mut Output {
        &mut self.output
    }

    /// When one that is missing may be started, if that is not yet.
    pub(crate) fn wakes(&self, now: Instant) -> Option<Instant> {
        self.restart.wakes(now).filter(|_| self.child.is_none() && self.wanted.is_some())
    }

    /// The settings with which one is to be started now.
    fn due(&self, now: Instant) -> Option<&AcmeDraft> {
        self.wanted.as_ref().filter(|_| self.child.is_none() && self.restart.is_due(now))
    }

    /// A plan has come into force. True: the process that runs has other settings.
    fn planned(&mut self, wanted: Option<&AcmeDraft>) -> bool {
        if self.wanted.as_ref() == wanted {
            return false;
        }
        self.wanted = wanted.cloned();
        if self.wanted.is_none() {
            self.answers = None;
        }
        self.child.is_some()
    }

    /// It was reaped. Returns whether that was expected.
    fn died(&mut self, now: Instant) -> bool {
        let Some(child) = self.child.take() else { return true };
        let is_expected = std::mem::take(&mut self.is_ended);
        if !is_expected {
            let lived = now.saturating_duration_since(child.since);
            self.restart.died(lived, false, now);
        }
        is_expected
    }

    fn kill(&mut self) {
        self.child.iter().for_each(|child| sys::kill(child.pid, Signal::SIGKILL));
        self.is_ended = self.child.is_some();
    }
}

impl Supervisor {
    /// Starts the process if it is missing, unless the server ends.
    pub(crate) fn start_acme(&mut self) {
        let now = Instant::now();
        if self.shutdown.is_begun() {
            return;
        }
        let Some(wanted) = self.acme.due(now) else { return };
        match self.spawn_acme(wanted) {
            Ok(child) => self.acme.child = Some(child),
            Err(error) => {
                let why = explain_own(&error);
                log_again("error", PROCESS, format_args!("{PROCESS} cannot be started: {why}"), format_args!(""));
                self.acme.restart.failed(None, now);
            }
        }
    }

    fn spawn_acme(&self, wanted: &AcmeDraft) -> io::Result<Child<ToAcme, FromAcme>> {
        let (ours, theirs) = Channel::pair()?;
        let settings = boot::sealed(wanted.settings.as_bytes())?;
        let pid = sys::start(&sys::Program {
            executable: self.service.front.as_fd(),
            arguments: ["reprise-acme", "acme"].map(str::to_owned).to_vec(),
            environment: Vec::new(),
            descriptors: vec![theirs.as_fd(), self.lifeline.0.as_fd(), settings.as_fd()],
            messages: Some(self.acme.output.writer()),
            output: None,
            user: wanted.user.as_ref(),
            limits: sys::ProcessLimits { no_capabilities: capabilities::may_limit(), ..sys::ProcessLimits::default() },
        })?;
        Ok(Child::new(pid, ours))
    }

    /// A plan has come into force: a process with other settings ends, and another one follows.
    pub(crate) fn acme_planned(&mut self) {
        let wanted = self.reload.plan().acme.clone();
        if self.acme.planned(wanted.as_ref()) {
            self.acme.kill();
        }
    }

    pub(crate) fn listen_to_acme(&mut self) {
        loop {
            let received = match self.acme.child.as_ref().map(|child| child.channel.receive()) {
                Some(Ok(Received::Message(message, attached))) => (message, attached),
                Some(Err(error)) => {
                    log("error", format_args!("a message of {PROCESS}: {error}"));
                    return self.acme.kill();
                }
                Some(Ok(Received::Nothing | Received::Closed)) | None => return,
            };
            match received {
                (FromAcme::Issued, _) => self.certificates_issued(),
                (FromAcme::Answers { number }, attached) => {
                    let Some(file) = attached.into_iter().next() else { continue };
                    // Nobody can change it while the front reads it.
                    let seals = rustix::fs::fcntl_get_seals(&file);
                    if seals.is_ok_and(|seals| seals.contains(boot::SEALS)) {
                        self.acme.answers = Some((number, file));
                        self.introduce_answers();
                    }
                }
            }
        }
    }

    /// Tells the front what authorities are to be told.
    pub(crate) fn introduce_answers(&self) {
        if let Some((number, file)) = &self.acme.answers {
            self.front.send(&ToFront::Answers { number: *number }, &[file.as_fd()]);
        }
    }

    /// The front gives these responses.
    pub(crate) fn answers_taken(&self, number: u64) {
        self.acme.child.iter().for_each(|child| send(&child.channel, &ToAcme::AnswersTaken { number }, &[]));
    }

    pub(crate) fn acme_died(&mut self, ending: Ending) {
        let is_expected = self.acme.died(Instant::now());
        if !is_expected && !self.shutdown.is_begun() {
            log_again("error", PROCESS, format_args!("{PROCESS} {ending}"), format_args!("; another one follows"));
        }
    }

    /// Ends it with the server: what it does is continued by the next one.
    pub(crate) fn end_acme(&mut self) {
        self.acme.kill();
    }

    /// Kills one that reads no messages.
    pub(crate) fn end_unresponsive_acme(&mut self) {
        if self.acme.child.as_ref().is_some_and(|child| child.channel.is_overrun()) && !self.acme.is_ended {
            log("error", format_args!("{PROCESS} is killed: it reads no messages"));
            self.acme.kill();
            self.acme.restart.failed(None, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(settings: &str) -> AcmeDraft {
        AcmeDraft { settings: settings.to_owned(), user: None }
    }

    /// One that runs, with the process' end of its channel.
    fn running(now: Instant) -> (Acme, Channel<FromAcme, ToAcme>) {
        let mut acme = Acme::new(Some(draft("one")), now).unwrap();
        let (ours, theirs) = Channel::pair().unwrap();
        // A process that does not exist.
        acme.child = Some(Child::new(0, ours));
        (acme, theirs)
    }

    #[test]
    fn another_process_follows_when_the_settings_change() {
        let now = Instant::now();
        let (mut acme, _theirs) = running(now);
        assert!(acme.due(now).is_none() && !acme.planned(Some(&draft("one"))));
        assert!(acme.planned(Some(&draft("two"))));
        acme.is_ended = true;
        assert!(acme.died(now), "it was told to end");
        assert_eq!(acme.due(now).map(|wanted| wanted.settings.as_str()), Some("two"));
        assert!(!acme.planned(None), "none runs");
        assert!(acme.due(now).is_none());
    }

    #[test]
    fn a_process_that_dies_early_is_delayed() {
        let now = Instant::now();
        let (mut acme, _theirs) = running(now);
        assert!(!acme.died(now), "nobody has told it to end");
        assert!(acme.due(now).is_none() && acme.wakes(now).is_some());
        assert!(acme.due(now + std::time::Duration::from_secs(1)).is_some());
    }
}
