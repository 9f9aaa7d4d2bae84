//! What workers are told about their application: see [`wire::report`].

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use wire::report::Reporter;

use super::{Lane, lock};
use crate::settings::Application;

/// Reports of a lane between two sweeps.
const MOST: u32 = 50;
/// How many times as long as a report took none is made after it: each keeps this thread from its requests.
const PAUSE: u64 = 100;

/// A lane's reports.
pub(super) struct Reports {
    application: Arc<Application>,
    reporter: Mutex<Reporter>,
    /// The last wish that has a response.
    answered: AtomicU32,
    /// Made since the last sweep.
    made: AtomicU32,
    /// Microseconds since the lane began, before which none is made.
    not_before_us: AtomicU64,
}

impl Reports {
    pub(super) fn new(application: &Application) -> Reports {
        Reports {
            application: Arc::new(application.clone()),
            reporter: Mutex::default(),
            answered: AtomicU32::new(0),
            made: AtomicU32::new(0),
            not_before_us: AtomicU64::new(0),
        }
    }
}

impl Lane {
    /// Answers workers that have asked, with what `make` says. Costs one load if none has.
    pub fn report(&self, make: impl FnOnce(&Application) -> Vec<u8>) {
        let reports = &self.reports;
        let wanted = self.slab.report_words().wanted.load(Ordering::Relaxed);
        if wanted == reports.answered.load(Ordering::Relaxed) {
            return;
        }
        // Beyond that they wait, for the next sweep at most.
        let now = self.began.elapsed().as_micros() as u64;
        if now < reports.not_before_us.load(Ordering::Relaxed) || reports.made.fetch_add(1, Ordering::Relaxed) >= MOST {
            return;
        }
        let mut reporter = lock(&reports.reporter);
        if let Some(wish) = reporter.wish(&self.slab) {
            reporter.publish(&self.slab, wish, &make(&reports.application));
            reports.answered.store(wish, Ordering::Relaxed);
            let took = self.began.elapsed().as_micros() as u64 - now;
            reports.not_before_us.store(now + took.saturating_mul(PAUSE), Ordering::Relaxed);
        }
    }

    /// As many reports may be made again.
    pub(super) fn allow_reports(&self) {
        self.reports.made.store(0, Ordering::Relaxed);
    }
}
