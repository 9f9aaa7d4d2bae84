//! How much processor time the default run may take, its builds left out. A test that comes later pays in this budget, or goes to `--full`.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use crate::ran::Ran;
use crate::times::Costs;

/// Seconds of processor time above which a run warns, and names what has grown.
const WARNED: f64 = 1_200.0;

/// Above which it fails.
const MOST: f64 = 1_500.0;

/// What [`work`] takes on the machine for which these numbers are, in seconds: 32 ms for the arithmetic, and half a microsecond for each page. There are
/// virtual machines whose processors are as fast, and whose pages take eight times as long.
const REFERENCE: f64 = 0.035;

/// A test has grown if it costs so many seconds more than it did, and so many times as much.
const GROWN: (f64, f64) = (1.0, 1.5);

/// How many tests are named.
const NAMED: usize = 10;

/// How many times the processor time of the machine for which the budget is this one takes at the moment.
pub fn slowness() -> f64 {
    let now = || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from);
    let began = now();
    std::hint::black_box(work());
    (now() - began).as_secs_f64() / REFERENCE
}

/// The same work everywhere: arithmetic, and pages that the kernel has to bring. Tests start and fork many processes.
fn work() -> u64 {
    const PAGE: usize = 4096;
    // libc's heap keeps no block of that size, so its pages are new each time.
    const BLOCK: usize = 40 << 20;
    const PAGES: usize = 6_144;
    let sum =
        (0..2_000_000u64).fold(1, |sum, number| (sum ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23));
    let mut block = vec![0u8; BLOCK];
    block.iter_mut().step_by(PAGE).take(PAGES).for_each(|byte| *byte = 1);
    sum ^ u64::from(std::hint::black_box(block)[0])
}

/// What a run has spent.
pub struct Spent {
    /// Processor time without the builds.
    pub processor: Duration,
    /// The median of [`slowness`] while it ran; 1 on a faster machine, whose seconds are taken as they are.
    pub slowness: f64,
}

impl Spent {
    /// In seconds of the machine for which the budget is.
    fn seconds(&self) -> f64 {
        self.processor.as_secs_f64() / self.slowness
    }

    /// What is said of it, and whether the run fails.
    pub fn judge(&self, tests: &[Ran], before: &Costs) -> (String, bool) {
        let seconds = self.seconds();
        let mut said = format!(
            "{:.0} s of processor time without the builds, {seconds:.0} s of the budget's machine; the budget is {WARNED:.0} s",
            self.processor.as_secs_f64()
        );
        if seconds > WARNED {
            said.push_str("\nover the budget. Tests that have grown:");
            let grown = grown(tests, before, self.slowness);
            for (name, now, then) in grown.iter().take(NAMED) {
                said.push_str(&format!("\n{now:>8.1} CPU s, before {then:.1}: {name}"));
            }
            if grown.is_empty() {
                said.push_str(" none; tests/README.md says what the default run may cost");
            }
        }
        (said, seconds > MOST)
    }
}

/// Tests that cost more than before, those that have grown most first. One that is new has cost nothing.
fn grown<'a>(tests: &'a [Ran], before: &Costs, slowness: f64) -> Vec<(&'a str, f64, f64)> {
    let mut grown: Vec<(&str, f64, f64)> = tests
        .iter()
        .map(|test| {
            let then = before.get(&test.name).map_or(0.0, |cost| cost.processor.as_secs_f64());
            (test.name.as_str(), test.processor.as_secs_f64() / slowness, then)
        })
        .filter(|(_, now, then)| now - then > GROWN.0 && *now > then * GROWN.1)
        .collect();
    grown.sort_by(|a, b| (b.1 - b.2).total_cmp(&(a.1 - a.2)));
    grown
}
