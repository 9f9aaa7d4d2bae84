//! Lines for the log, and the time.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// Milliseconds of the monotonic clock, by which the segment's times go.
pub(crate) fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// Writes a line to the log: the supervisor reads standard error.
pub(crate) fn log(level: &str, text: &str) {
    use std::io::Write;
    // Without a log there is nobody to tell.
    let _ = writeln!(io::stderr(), "{level} {text}");
}

/// The same, at most once a minute.
pub(crate) fn log_seldom(text: &str) {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let (now, last) = (now(), LAST.load(Ordering::Relaxed));
    if (last == 0 || now.saturating_sub(last) > 60_000)
        && LAST.compare_exchange(last, now.max(1), Ordering::Relaxed, Ordering::Relaxed).is_ok()
    {
        log("error", text);
    }
}
