//! How soon generations follow each other that nobody has asked for by hand. A script that asks in every request gets what it asks for, or that
//! it is refused, but not all of the machine.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// In the long run they take one part of this many and one of the time.
const PAUSE: u32 = 10;
/// So many come one after the other when there was none for long: who changes a site changes several things in a row, and looks at each.
pub(super) const IN_A_ROW: u32 = 6;

/// Why a generation is to follow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    /// Somebody has written files, and waits; or a script does all the time. Half of the time at most is spent on that.
    Files,
    /// A script or the state of opcache.
    Code,
}

struct Last {
    at: Instant,
    took: Duration,
    /// When the pauses of all of them are over.
    rested: Instant,
}

/// The generations that each application got, by its name.
#[derive(Default)]
pub(super) struct Pace(BTreeMap<String, Last>);

impl Pace {
    /// Whether the next one may begin.
    pub(super) fn is_due(&self, application: &str, cause: Cause, now: Instant) -> bool {
        self.0.get(application).is_none_or(|last| match cause {
            Cause::Files => now >= last.at + last.took,
            Cause::Code => {
                // A slow one does not count against those behind a quick one.
                let is_rested = now >= last.at + last.took * PAUSE;
                is_rested || now + last.took * PAUSE * (IN_A_ROW - 1) >= last.rested
            }
        })
    }

    /// One was made, and that took so long.
    pub(super) fn made(&mut self, application: &str, took: Duration, now: Instant) {
        self.add(application, took, now, now);
    }

    /// One was refused, after so long: the next one, which may be refused too, comes after a pause.
    pub(super) fn refused(&mut self, application: &str, took: Duration, now: Instant) {
        self.add(application, took, now, now + took * PAUSE * (IN_A_ROW - 1));
    }

    fn add(&mut self, application: &str, took: Duration, now: Instant, at_least: Instant) {
        self.0.retain(|_, last| last.rested > now || now < last.at + last.took);
        let rested = self.0.get(application).map_or(at_least, |last| last.rested.max(at_least)) + took * PAUSE;
        self.0.insert(application.to_owned(), Last { at: now, took, rested });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn some_come_in_a_row_and_the_rest_after_pauses() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        let mut in_a_row = 0;
        while pace.is_due("shop", Cause::Code, now) {
            now += SECOND;
            pace.made("shop", SECOND, now);
            in_a_row += 1;
        }
        assert_eq!(in_a_row, 6);
        assert!(pace.is_due("blog", Cause::Code, now), "another application has a pace of its own");
        let mut made = 0;
        for _ in 0..1000 {
            now += SECOND;
            if pace.is_due("shop", Cause::Code, now) {
                pace.made("shop", SECOND, now);
                made += 1;
            }
        }
        assert!((99..=101).contains(&made), "{made} in 1000 s");
        now += SECOND * 60;
        assert!((0..6).all(|_| {
            let is_due = pace.is_due("shop", Cause::Code, now);
            pace.made("shop", SECOND, now);
            is_due
        }));
    }

    #[test]
    fn a_slow_one_does_not_hold_up_quick_ones() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        pace.made("shop", SECOND * 60, now);
        pace.made("shop", SECOND, now);
        assert!(!pace.is_due("shop", Cause::Code, now + SECOND * 9));
        assert!(pace.is_due("shop", Cause::Code, now + SECOND * 10));
    }

    #[test]
    fn there_is_a_pause_after_a_refusal() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        pace.refused("shop", SECOND, now);
        assert!(!pace.is_due("shop", Cause::Code, now + SECOND * 9));
        assert!(pace.is_due("shop", Cause::Code, now + SECOND * 10));
    }

    #[test]
    fn files_wait_as_long_as_the_last_one_took() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        for _ in 0..20 {
            pace.made("shop", SECOND * 2, now);
        }
        assert!(!pace.is_due("shop", Cause::Files, now + SECOND));
        assert!(pace.is_due("shop", Cause::Files, now + SECOND * 2));
        assert!(!pace.is_due("shop", Cause::Code, now + SECOND * 2));
    }
}
