//! How the server ends: drained, cut off, or because it could not start.

use std::time::{Duration, Instant};

use crate::plan::Stopping;

/// Why the supervisor ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything was answered.
    Drained,
    /// The deadline or a second signal cut requests off.
    CutOff,
    /// An application never booted; what of it.
    NotBooted(String, String),
    /// A warm-up request of an application failed; which.
    WarmUpFailed(String, String),
    /// The front never started.
    NoFront,
}

/// What follows from a request to stop.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The front serves on, and says that it is about to stop.
    Leave,
    /// The front finishes what it has.
    Drain,
    /// What runs is cut off.
    CutOff,
    /// Nothing runs any more.
    Nothing,
}

/// What is done when the supervisor ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) outcome: Outcome,
    /// Processes are left and have to be killed.
    pub(crate) kills: bool,
}

/// Whether the server is to end, and how.
pub(crate) struct Shutdown {
    stage: Stopping,
    deadline: Option<Instant>,
    outcome: Option<Outcome>,
}

impl Shutdown {
    /// Nobody has asked for it.
    pub(crate) fn new() -> Shutdown {
        Shutdown { stage: Stopping::No, deadline: None, outcome: None }
    }

    pub(crate) fn stage(&self) -> Stopping {
        self.stage
    }

    /// Whether the server does not serve on.
    pub(crate) fn is_begun(&self) -> bool {
        self.stage > Stopping::Leaving
    }

    /// Whether it is about to stop, and serves on.
    pub(crate) fn is_leaving(&self) -> bool {
        self.stage == Stopping::Leaving
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.stage == Stopping::Draining
    }

    /// Whether the server ends because of something that went wrong.
    pub(crate) fn has_failed(&self) -> bool {
        self.outcome.is_some()
    }

    /// Somebody asks the server to stop, or a delay or a drain has taken its time. Without `delay` a drain begins at once.
    pub(crate) fn request(
        &mut self,
        delay: Duration,
        drain_timeout: Duration,
        has_processes: bool,
        now: Instant,
    ) -> Stop {
        if self.stage == Stopping::No && !delay.is_zero() && self.outcome.is_none() {
            self.stage = Stopping::Leaving;
            self.deadline = Some(now + delay);
            return Stop::Leave;
        }
        self.stage = self.stage.further();
        match self.stage {
            Stopping::No | Stopping::Leaving => Stop::Nothing,
            Stopping::Draining => {
                self.deadline = Some(now + drain_timeout);
                Stop::Drain
            }
            Stopping::Now if has_processes => {
                self.outcome = Some(Outcome::CutOff);
                Stop::CutOff
            }
            Stopping::Now => Stop::Nothing,
        }
    }

    /// When the delay is over, or when a drain has taken too long.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline.filter(|_| self.is_leaving() || self.is_draining())
    }

    /// The server ends, for that reason: at once, or when a drain that has begun is over.
    pub(crate) fn fail(&mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
    }

    /// Whether the supervisor can end now.
    pub(crate) fn end(&mut self, has_processes: bool) -> Option<End> {
        if self.outcome.is_some() && !self.is_draining() {
            return self.outcome.take().map(|outcome| End { outcome, kills: true });
        }
        let is_over = self.is_begun() && !has_processes;
        is_over.then(|| End { outcome: self.outcome.take().unwrap_or(Outcome::Drained), kills: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);
    const NONE: Duration = Duration::ZERO;

    #[test]
    fn a_drain_ends_when_the_last_process_is_gone() {
        let (mut shutdown, now) = (Shutdown::new(), Instant::now());
        assert_eq!((shutdown.end(false), shutdown.deadline()), (None, None));
        assert_eq!(shutdown.request(NONE, LIMIT, true, now), Stop::Drain);
        assert_eq!((shutdown.end(true), shutdown.deadline()), (None, Some(now + LIMIT)));
        assert_eq!(shutdown.end(false), Some(End { outcome: Outcome::Drained, kills: false }));
    }

    #[test]
    fn a_delay_comes_before_the_drain_and_a_second_request_ends_it() {
        let (mut shutdown, now, delay) = (Shutdown::new(), Instant::now(), Duration::from_secs(5));
        assert_eq!(shutdown.request(delay, LIMIT, true, now), Stop::Leave);
        assert_eq!((shutdown.is_begun(), shutdown.is_leaving(), shutdown.deadline()), (false, true, Some(now + delay)));
        assert_eq!(shutdown.end(true), None);
        assert_eq!(shutdown.request(delay, LIMIT, true, now), Stop::Drain);
        assert_eq!((shutdown.is_begun(), shutdown.deadline()), (true, Some(now + LIMIT)));
        assert_eq!(shutdown.request(delay, LIMIT, true, now), Stop::CutOff);
    }

    #[test]
    fn a_server_that_has_failed_does_not_delay() {
        let mut shutdown = Shutdown::new();
        shutdown.fail(Outcome::NoFront);
        assert_eq!(shutdown.request(LIMIT, LIMIT, true, Instant::now()), Stop::Drain);
    }

    #[test]
    fn a_second_request_cuts_off_what_is_left() {
        let (mut shutdown, now) = (Shutdown::new(), Instant::now());
        shutdown.request(NONE, LIMIT, true, now);
        assert_eq!(shutdown.request(NONE, LIMIT, true, now), Stop::CutOff);
        assert_eq!(shutdown.deadline(), None);
        assert_eq!(shutdown.end(true), Some(End { outcome: Outcome::CutOff, kills: true }));
    }

    #[test]
    fn a_second_request_when_nothing_is_left_is_a_drain_all_the_same() {
        let (mut shutdown, now) = (Shutdown::new(), Instant::now());
        shutdown.request(NONE, LIMIT, true, now);
        assert_eq!(shutdown.request(NONE, LIMIT, false, now), Stop::Nothing);
        assert_eq!(shutdown.end(false), Some(End { outcome: Outcome::Drained, kills: false }));
    }

    #[test]
    fn what_fails_ends_the_server_at_once_unless_it_drains() {
        let mut shutdown = Shutdown::new();
        shutdown.fail(Outcome::NoFront);
        assert_eq!(shutdown.end(true), Some(End { outcome: Outcome::NoFront, kills: true }));
        let mut shutdown = Shutdown::new();
        shutdown.request(NONE, LIMIT, true, Instant::now());
        shutdown.fail(Outcome::CutOff);
        assert_eq!((shutdown.has_failed(), shutdown.end(true)), (true, None));
        assert_eq!(shutdown.end(false), Some(End { outcome: Outcome::CutOff, kills: false }));
    }
}
