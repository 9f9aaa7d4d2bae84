//! When a store that fails is asked again.

use std::time::{Duration, Instant};

/// Failures in a row before it is not asked for a while.
const MOST_FAILURES: u32 = 3;
const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(5);

/// Counts failures.
#[derive(Default)]
pub struct Breaker {
    failures: u32,
    until: Option<Instant>,
}

/// How long to wait after so many failures in a row: twice as long each time, between half and all of it, so that nodes do not come at once.
pub fn pause(failures: u32) -> Duration {
    let whole = FIRST.saturating_mul(1 << failures.min(10)).min(LONGEST);
    whole.mul_f64(0.5 + fastrand::f64() / 2.0)
}

impl Breaker {
    /// Whether it may be asked. After a pause one may try.
    pub fn may_ask(&mut self, now: Instant) -> bool {
        match self.until {
            Some(until) if now < until => false,
            Some(_) => {
                self.until = Some(now + pause(self.failures.saturating_sub(MOST_FAILURES)));
                true
            }
            None => true,
        }
    }

    /// It has responded.
    pub fn worked(&mut self) {
        *self = Breaker::default();
    }

    /// It has not.
    pub fn failed(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= MOST_FAILURES {
            self.until = Some(now + pause(self.failures - MOST_FAILURES));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_failures_one_tries_after_each_pause() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        for _ in 0..MOST_FAILURES {
            assert!(breaker.may_ask(now));
            breaker.failed(now);
        }
        assert!(!breaker.may_ask(now));
        let later = now + LONGEST;
        assert!(breaker.may_ask(later) && !breaker.may_ask(later), "one of many tries");
        breaker.failed(later);
        assert!(!breaker.may_ask(later));
        breaker.worked();
        assert!(breaker.may_ask(later));
    }

    #[test]
    fn pauses_grow_and_end() {
        for failures in 0..40 {
            let whole = FIRST.saturating_mul(1 << failures.min(10)).min(LONGEST);
            assert!((whole / 2..=whole).contains(&pause(failures)));
        }
    }
}
