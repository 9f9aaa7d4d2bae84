//! How long requests took: the histogram of a lane.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the histogram, in milliseconds.
pub const BOUNDS_MS: [u64; 12] = [1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000];

/// How long requests took.
#[derive(Default)]
pub struct Durations {
    /// For each bound: requests that took no longer than it and longer than the bound before. The last element counts those
    /// that took longer than all bounds.
    buckets: [AtomicU64; BOUNDS_MS.len() + 1],
    sum_us: AtomicU64,
}

impl Durations {
    /// Counts a request.
    pub fn note(&self, time: Duration) {
        let us = time.as_micros() as u64;
        let bucket = BOUNDS_MS.iter().position(|bound| us <= bound * 1000).unwrap_or(BOUNDS_MS.len());
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// How many requests took no longer than each bound, then all; and the sum of the durations in seconds.
    pub fn read(&self) -> ([u64; BOUNDS_MS.len() + 1], f64) {
        let mut sum = 0;
        let each = self.buckets.each_ref().map(|bucket| {
            sum += bucket.load(Ordering::Relaxed);
            sum
        });
        (each, self.sum_us.load(Ordering::Relaxed) as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_up_to_their_bound() {
        let durations = Durations::default();
        for ms in [0, 1, 2, 50, 400_000] {
            durations.note(Duration::from_millis(ms));
        }
        let (each, sum) = durations.read();
        assert_eq!(each, [2, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 5]);
        assert!((sum - 400.053).abs() < 1e-9);
    }
}
