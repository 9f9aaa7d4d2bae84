//! A process for each request, or classic mode. Where a rewind is not possible, a snapshot's request costs a fork: page tables are
//! copied, and each page that is written. Classic mode costs a boot. Which of the two takes less processor time is seen from visitors'
//! own requests, once in a generation. None is made for it.
//!
//! 1. The lane serves. What its workers took is noted as they are reaped.
//! 2. After [`ENOUGH`] of them the front posts the lane's requests to classic mode, and says what they take (`Compare`, `Compared`).
//! 3. Classic mode keeps them if it is cheap enough ([`is_cheaper`]); else the lane serves again.
//!
//! [`crate::supervisor::workers::comparing`] carries that out.

/// Requests of which the median is taken.
pub(crate) const ENOUGH: usize = 9;

/// What is known of the processor time of a lane's requests, in microseconds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// So much took a process for each of some requests.
    Forks(Vec<u32>),
    /// This was the median, and the front looks at classic mode.
    Classic(u32),
    /// It is decided; `is_classic`: for classic mode.
    Over { is_classic: bool },
}

impl Default for Comparison {
    fn default() -> Comparison {
        Comparison::Forks(Vec::with_capacity(ENOUGH))
    }
}

impl Comparison {
    /// A worker has ended after its one request. Returns the median as soon as it is known.
    pub(crate) fn forked(&mut self, processor_us: u32) -> Option<u32> {
        let Comparison::Forks(all) = self else { return None };
        all.push(processor_us);
        if all.len() < ENOUGH {
            return None;
        }
        all.sort_unstable();
        let median = all[ENOUGH / 2];
        *self = Comparison::Classic(median);
        Some(median)
    }

    /// What classic mode takes. Returns what a process for each request takes, and whether classic mode is to run them.
    pub(crate) fn decide(&mut self, classic_us: u32) -> Option<(u32, bool)> {
        let &mut Comparison::Classic(fork_us) = self else { return None };
        let is_classic = is_cheaper(classic_us, fork_us);
        *self = Comparison::Over { is_classic };
        Some((fork_us, is_classic))
    }

    /// The template or the front that was looked at is gone.
    pub(crate) fn begin_again(&mut self) {
        if !matches!(self, Comparison::Over { .. }) {
            *self = Comparison::default();
        }
    }
}

/// Whether classic mode is to run requests that take so much there: a process for each takes at least half as much again.
fn is_cheaper(classic_us: u32, fork_us: u32) -> bool {
    u64::from(classic_us) * 3 <= u64::from(fork_us) * 2
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A comparison to which so many forks of 3 ms are known.
    fn after(forks: usize) -> Comparison {
        let mut comparison = Comparison::default();
        for _ in 0..forks {
            comparison.forked(3000);
        }
        comparison
    }

    #[test]
    fn the_median_of_enough_forks_is_compared_once() {
        let mut comparison = Comparison::default();
        let times = [90_000, 1, 5000, 4000, 3000, 3500, 2000, 80_000, 2500];
        let said: Vec<Option<u32>> = times.iter().map(|time| comparison.forked(*time)).collect();
        assert_eq!(said[..ENOUGH - 1], [None; ENOUGH - 1]);
        assert_eq!(said[ENOUGH - 1], Some(3500));
        assert_eq!(comparison.forked(1), None, "classic mode is looked at");
        assert_eq!(comparison.decide(3000), Some((3500, false)));
        assert_eq!(comparison.decide(1), None, "it is decided");
    }

    #[test]
    fn classic_mode_is_taken_where_a_fork_costs_half_as_much_again() {
        for (classic, is_classic) in [(1, true), (2000, true), (2001, false), (9000, false)] {
            let mut comparison = after(ENOUGH);
            assert_eq!(comparison.decide(classic), Some((3000, is_classic)), "{classic}");
            comparison.begin_again();
            assert_eq!(comparison, Comparison::Over { is_classic }, "once in a generation");
        }
        assert!(!is_cheaper(u32::MAX, u32::MAX) && is_cheaper(0, 0));
    }

    #[test]
    fn what_was_looked_at_and_is_gone_does_not_count() {
        for forks in [1, ENOUGH] {
            let mut comparison = after(forks);
            comparison.begin_again();
            assert_eq!(comparison, Comparison::default());
            assert_eq!(comparison.decide(1), None);
        }
    }
}
