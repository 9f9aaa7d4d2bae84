//! Makes the reports about an application that workers ask for; see [`ipc::report`].

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ipc::report::Reporter;

use super::{Lane, lock};
use routing::settings::Application;

/// Most reports of a lane between two sweeps.
const MOST: u32 = 50;
/// The pause after a report, in multiples of the time that the report took: a report keeps this thread from its requests.
const PAUSE: u64 = 100;

/// A lane's reports.
pub(super) struct Reports {
    application: Arc<Application>,
    reporter: Mutex<Reporter>,
    /// The last ticket for which there is a report.
    served: AtomicU32,
    /// Reports made since the last sweep.
    made: AtomicU32,
    /// No report is made before this time: microseconds since the lane began.
    not_before_us: AtomicU64,
}

impl Reports {
    pub(super) fn new(application: &Application) -> Reports {
        Reports {
            application: Arc::new(application.clone()),
            reporter: Mutex::default(),
            served: AtomicU32::new(0),
            made: AtomicU32::new(0),
            not_before_us: AtomicU64::new(0),
        }
    }
}

impl Lane {
    /// Makes a report with `make` if workers have asked for one. Costs one load if none has.
    pub fn report(&self, make: impl FnOnce(&Application) -> Vec<u8>) {
        let reports = &self.reports;
        let wanted = self.slab.report_words().wanted.load(Ordering::Relaxed);
        if wanted == reports.served.load(Ordering::Relaxed) {
            return;
        }
        // Otherwise workers wait, at most until the next sweep.
        let now = self.began.elapsed().as_micros() as u64;
        if now < reports.not_before_us.load(Ordering::Relaxed) || reports.made.fetch_add(1, Ordering::Relaxed) >= MOST {
            return;
        }
        let mut reporter = lock(&reports.reporter);
        if let Some(ticket) = reporter.ticket(&self.slab) {
            reporter.publish(&self.slab, ticket, &make(&reports.application));
            reports.served.store(ticket, Ordering::Relaxed);
            let took = self.began.elapsed().as_micros() as u64 - now;
            reports.not_before_us.store(now + took.saturating_mul(PAUSE), Ordering::Relaxed);
        }
    }

    /// A sweep has come: the count of reports begins again.
    pub(super) fn allow_reports(&self) {
        self.reports.made.store(0, Ordering::Relaxed);
    }
}
