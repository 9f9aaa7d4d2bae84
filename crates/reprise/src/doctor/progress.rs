//! Says on standard error how far long work is.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Work that takes less says nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// How far a piece of work is.
pub struct Progress {
    what: String,
    of: usize,
    done: AtomicUsize,
    next: Mutex<Instant>,
}

impl Progress {
    /// Work with so many steps.
    pub fn new(what: String, of: usize) -> Progress {
        Progress { what, of, done: AtomicUsize::new(0), next: Mutex::new(Instant::now() + PATIENCE) }
    }

    /// A step is done. Once a second this says how many are.
    pub fn step(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let Ok(mut next) = self.next.try_lock() else { return };
        if Instant::now() >= *next {
            *next = Instant::now() + PATIENCE;
            eprintln!("{}: {done} of {}", self.what, self.of.max(done));
        }
    }
}
