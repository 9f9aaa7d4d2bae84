//! The link to the front: its process, what it has said of itself, its epoch, and when another may be started.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;

use control::status::Spool;
use ipc::control::{FromFront, ToFront};
use nix::sys::signal::Signal;

use crate::logs::output::Output;
use crate::logs::own::log;
use crate::os::sys;
use crate::peers::channel::send;
use crate::peers::channel::{Channel, Received};
use crate::peers::child::{Child, Front};
use crate::peers::restart::Restart;
use crate::plan::HEALTHY_AFTER;

/// The front, if it runs.
pub(crate) struct FrontLink {
    child: Option<Front>,
    /// Counts fronts. A message about an earlier one is ignored.
    epoch: u64,
    /// What workers wake the front's threads by.
    doors: Vec<OwnedFd>,
    restart: Restart,
    /// What it holds for slow clients, as it said last.
    spool: Spool,
    /// What fronts write to their standard error.
    output: Output,
}

impl FrontLink {
    pub(crate) fn new(now: Instant) -> io::Result<FrontLink> {
        let output = Output::of_front()?;
        Ok(FrontLink {
            child: None,
            epoch: 0,
            doors: Vec::new(),
            restart: Restart::new(now),
            spool: Spool::default(),
            output,
        })
    }

    /// Its process, if it runs.
    pub(crate) fn child(&self) -> Option<&Front> {
        self.child.as_ref()
    }

    /// What it holds for slow clients, as it said last.
    pub(crate) fn spool(&self) -> &Spool {
        &self.spool
    }

    pub(crate) fn holds(&mut self, spool: Spool) {
        self.spool = spool;
    }

    pub(crate) fn is_running(&self) -> bool {
        self.child.is_some()
    }

    pub(crate) fn is_process(&self, pid: i32) -> bool {
        self.child.as_ref().is_some_and(|child| child.pid == pid)
    }

    /// Whether it has said that it is ready.
    pub(crate) fn is_ready(&self) -> bool {
        self.child.as_ref().is_some_and(|child| child.ready)
    }

    /// Whether workers can serve it.
    pub(crate) fn is_open(&self) -> bool {
        self.is_ready() && !self.doors.is_empty()
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What workers wake its threads by; none before it has sent them.
    pub(crate) fn doors(&self) -> &[OwnedFd] {
        &self.doors
    }

    pub(crate) fn output(&self) -> &Output {
        &self.output
    }

    pub(crate) fn output_mut(&mut self) -> &mut Output {
        &mut self.output
    }

    /// Whether one is missing and may be started now.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.child.is_none() && self.restart.is_due(now)
    }

    /// When one that is missing may be started, if that is not yet.
    pub(crate) fn wakes(&self, now: Instant) -> Option<Instant> {
        self.restart.wakes(now).filter(|_| self.child.is_none())
    }

    /// One is about to be started.
    pub(crate) fn begin_epoch(&mut self) {
        self.epoch += 1;
        self.spool = Spool::default();
        self.doors.clear();
    }

    pub(crate) fn started(&mut self, pid: i32, channel: Channel<ToFront, FromFront>) {
        self.child = Some(Child::new(pid, channel));
    }

    pub(crate) fn start_failed(&mut self, now: Instant) {
        self.restart.failed(None, now);
    }

    pub(crate) fn doors_came(&mut self, doors: Vec<OwnedFd>) {
        self.doors = doors;
    }

    pub(crate) fn became_ready(&mut self) {
        self.child.iter_mut().for_each(|child| child.ready = true);
        self.restart.works();
    }

    /// It was reaped. Returns what it was.
    pub(crate) fn died(&mut self) -> Option<Front> {
        self.child.take()
    }

    /// Another is to follow one that died, at once or after a delay.
    pub(crate) fn restart_after(&mut self, died: &Front, now: Instant) {
        let lived = now.saturating_duration_since(died.since);
        self.restart.died(lived, lived >= HEALTHY_AFTER / 10, now);
    }

    /// Sends a message, if it runs.
    pub(crate) fn send(&self, message: &ToFront, attached: &[BorrowedFd<'_>]) {
        self.child.iter().for_each(|child| send(&child.channel, message, attached));
    }

    /// Sends what waits for room.
    pub(crate) fn flush(&self) {
        self.child.iter().for_each(|child| child.channel.flush());
    }

    /// The next of its messages, with the descriptors attached to it.
    pub(crate) fn receive(&self) -> Option<(FromFront, Vec<OwnedFd>)> {
        match self.child.as_ref()?.channel.receive() {
            Ok(Received::Message(message, attached)) => Some((message, attached)),
            Ok(Received::Nothing | Received::Closed) => None,
            Err(error) => {
                log("error", format_args!("a control message of the front cannot be read: {error}"));
                None
            }
        }
    }

    /// Kills a front that reads no messages.
    pub(crate) fn end_unresponsive(&mut self) {
        let is_overrun = |child: &&mut Front| child.channel.is_overrun() && !child.liveness.is_killed;
        let Some(child) = self.child.as_mut().filter(is_overrun) else { return };
        child.liveness.is_killed = true;
        log("error", format_args!("the front (process {}) is killed: it reads no messages", child.pid));
        sys::kill(child.pid, Signal::SIGKILL);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn link(now: Instant) -> (FrontLink, Channel<FromFront, ToFront>) {
        let mut link = FrontLink::new(now).unwrap();
        let (ours, theirs) = Channel::pair().unwrap();
        link.begin_epoch();
        link.started(1, ours);
        (link, theirs)
    }

    fn door() -> OwnedFd {
        std::fs::File::open("/dev/null").unwrap().into()
    }

    #[test]
    fn a_front_is_open_when_it_is_ready_and_has_sent_its_doors() {
        let (mut link, theirs) = link(Instant::now());
        theirs.send(&FromFront::Ready, &[]).unwrap();
        assert!(matches!(link.receive(), Some((FromFront::Ready, _))));
        assert!(link.receive().is_none());
        link.became_ready();
        assert_eq!((link.is_ready(), link.is_open()), (true, false));
        link.doors_came(vec![door()]);
        assert!(link.is_open());
        // The doors of an earlier front open nothing.
        link.died();
        link.begin_epoch();
        assert_eq!((link.epoch(), link.is_open(), link.doors().len()), (2, false, 0));
    }

    #[test]
    fn a_front_that_dies_early_is_delayed_and_another_is_not() {
        for (lived, delay) in [(0, 100), (999, 100), (1000, 0)] {
            let (mut link, _theirs) = link(Instant::now());
            let died = link.died().unwrap();
            let now = died.since + Duration::from_millis(lived);
            link.restart_after(&died, now);
            let wakes = (delay > 0).then(|| now + Duration::from_millis(delay));
            assert_eq!((link.wakes(now), link.is_due(now)), (wakes, delay == 0), "{lived} ms");
        }
    }

    #[test]
    fn a_front_that_became_ready_starts_the_delays_anew() {
        let now = Instant::now();
        let (mut link, _theirs) = link(now);
        link.start_failed(now);
        link.start_failed(now);
        link.became_ready();
        assert!(link.wakes(now).is_none(), "it runs");
        link.died();
        link.start_failed(now);
        assert_eq!(link.wakes(now), Some(now + crate::plan::FIRST_DELAY));
    }
}
