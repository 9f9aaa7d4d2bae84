//! When something that failed may start again.

use std::time::{Duration, Instant};

use crate::plan::BackOff;

/// The delays of one process, or of the workers of one lane.
pub(crate) struct Restart {
    back_off: BackOff,
    not_before: Instant,
}

impl Restart {
    /// It may start at once.
    pub(crate) fn new(now: Instant) -> Restart {
        Restart { back_off: BackOff::default(), not_before: now }
    }

    /// Whether it may start now.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.not_before <= now
    }

    /// When it may start, if that is not yet.
    pub(crate) fn wakes(&self, now: Instant) -> Option<Instant> {
        Some(self.not_before).filter(|_| !self.is_due(now))
    }

    /// It works: the next failure is the first one.
    pub(crate) fn works(&mut self) {
        self.back_off.works();
    }

    /// It has died, after that time. Returns the delay, if there is one.
    pub(crate) fn died(&mut self, lived: Duration, worked: bool, now: Instant) -> Option<Duration> {
        let delay = self.back_off.died(lived, worked);
        self.not_before = if delay.is_zero() { self.not_before } else { now + delay };
        Some(delay).filter(|delay| !delay.is_zero())
    }

    /// One of several has died. Those that fail together fail once.
    pub(crate) fn one_died(&mut self, lived: Duration, worked: bool, now: Instant) -> Option<Duration> {
        if !worked && !self.is_due(now) {
            return None;
        }
        self.died(lived, worked, now)
    }

    /// It could not start. Returns the delay: this one, if it is given.
    pub(crate) fn failed(&mut self, instead: Option<Duration>, now: Instant) -> Duration {
        let delay = self.back_off.died(Duration::ZERO, false);
        let delay = instead.unwrap_or(delay);
        self.not_before = now + delay;
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{FIRST_DELAY, HEALTHY_AFTER};

    #[test]
    fn failures_are_delayed_and_those_that_come_together_are_one() {
        let now = Instant::now();
        let mut restart = Restart::new(now);
        assert!(restart.is_due(now) && restart.wakes(now).is_none());
        assert_eq!(restart.one_died(Duration::ZERO, false, now), Some(FIRST_DELAY));
        assert_eq!(restart.one_died(Duration::ZERO, false, now), None);
        assert_eq!(restart.wakes(now), Some(now + FIRST_DELAY));
        let now = now + FIRST_DELAY;
        assert!(restart.is_due(now));
        assert_eq!(restart.one_died(Duration::ZERO, false, now), Some(2 * FIRST_DELAY));
        // One that worked meanwhile ends the series, not the delay.
        assert_eq!(restart.one_died(Duration::ZERO, true, now), None);
        assert!(!restart.is_due(now));
        let now = now + HEALTHY_AFTER;
        assert_eq!(restart.one_died(Duration::ZERO, false, now), Some(FIRST_DELAY));
    }

    #[test]
    fn a_start_that_fails_may_have_a_delay_of_its_own() {
        let now = Instant::now();
        let mut restart = Restart::new(now);
        let given = Duration::from_secs(600);
        assert_eq!(restart.failed(Some(given), now), given);
        assert_eq!(restart.wakes(now), Some(now + given));
        assert_eq!(restart.failed(None, now), 2 * FIRST_DELAY);
        restart.works();
        assert_eq!(restart.failed(None, now), FIRST_DELAY);
    }
}
