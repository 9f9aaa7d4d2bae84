//! What requests of a lane take in classic mode, while the supervisor compares that with a process for each of them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Lane, lock};
use ipc::control::FromFront;

/// Requests of which the median is told.
const ENOUGH: usize = 9;

/// The processor time of the requests so far, in microseconds.
#[derive(Default)]
pub(super) struct Comparison {
    is_on: AtomicBool,
    taken: Mutex<Vec<u32>>,
}

impl Comparison {
    fn switch(&self, is_on: bool) {
        lock(&self.taken).clear();
        self.is_on.store(is_on, Ordering::Relaxed);
    }

    /// A request took so much. Returns the median as soon as it is known.
    fn took(&self, processor_us: u32) -> Option<u32> {
        let mut taken = lock(&self.taken);
        // 0: the worker has not measured it, or died.
        if processor_us == 0 || !self.is_on.load(Ordering::Relaxed) {
            return None;
        }
        taken.push(processor_us);
        if taken.len() < ENOUGH {
            return None;
        }
        self.is_on.store(false, Ordering::Relaxed);
        taken.sort_unstable();
        Some(taken[ENOUGH / 2])
    }
}

impl Lane {
    /// Takes no more requests, and learns from now on what they take in classic mode.
    pub fn compare(&self) {
        self.set_up(false);
        self.comparison.switch(true);
    }

    /// Takes requests again, so that there is nothing to learn.
    pub(super) fn compare_no_more(&self) {
        self.comparison.switch(false);
    }

    /// Whether it learns what requests for that script take in classic mode.
    pub fn is_compared(&self) -> bool {
        self.comparison.is_on.load(Ordering::Relaxed)
    }

    /// A request of this lane took so much in classic mode.
    pub(super) fn took_in_classic_mode(&self, processor_us: u32) {
        if let Some(processor_us) = self.comparison.took(processor_us) {
            self.link.send(&FromFront::Compared { lane: self.id, processor_us });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_told_once() {
        let comparison = Comparison::default();
        assert_eq!(comparison.took(1), None, "nobody has asked");
        for _ in 0..2 {
            comparison.switch(true);
            let said: Vec<Option<u32>> =
                [9, 0, 1, 8, 2, 7, 3, 6, 4, 5, 5, 5].map(|time| comparison.took(time)).to_vec();
            let at = said.iter().position(Option::is_some);
            assert_eq!((at, said[9], said.iter().flatten().count()), (Some(9), Some(5), 1), "{said:?}");
        }
    }
}
