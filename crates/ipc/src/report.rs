//! The report: a text about the whole application that the front makes when a worker asks for it.
//!
//! A worker that wants a report counts up `wanted`, remembers the new value as its ticket, and wakes the front. The front
//! reads `wanted`, makes the text, writes it between two steps of `version`, and stores the value it had read in `made`.
//! The report is new enough for a worker once `made` is not before the worker's ticket. The front keeps its own `version`
//! and the last ticket that it has served in private memory, and reads nothing here but `wanted`.

use crate::atomics::{Ordering, fence};
use crate::bell::Futex;
use crate::layout::{Phase, REPORT_SIZE};
use crate::ring::Memory;
use crate::slab::Slab;
use crate::sys::Kernel;

/// How long a worker sleeps before it looks whether the front is there at all.
const STEP_MS: u32 = 100;
/// How often it looks before it gives up.
const STEPS: usize = 20;

/// What the front knows of a lane's report.
#[derive(Default)]
pub struct Reporter {
    served: u32,
    version: u32,
}

impl Reporter {
    /// The last ticket, if there is no report for it yet.
    pub fn ticket(&self, slab: &Slab) -> Option<u32> {
        let wanted = slab.report_words().wanted.load(Ordering::SeqCst);
        (wanted != self.served).then_some(wanted)
    }

    /// Publishes the report for a ticket and all before it. A text that is too long is left out: workers find an empty one.
    pub fn publish(&mut self, slab: &Slab, ticket: u32, text: &[u8]) {
        let words = slab.report_words();
        let text = if text.len() <= REPORT_SIZE { text } else { &[] };
        words.version.store(self.version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::SeqCst);
        slab.report().store(0, text);
        words.size.store(text.len() as u32, Ordering::Relaxed);
        self.version = self.version.wrapping_add(2);
        words.version.store(self.version, Ordering::Release);
        self.served = ticket;
        words.made.store(ticket, Ordering::SeqCst);
        Kernel.wake(&words.made);
    }
}

/// Takes a ticket for a report. The caller still has to wake the front.
pub(crate) fn ask(slab: &Slab) -> u32 {
    slab.report_words().wanted.fetch_add(1, Ordering::SeqCst).wrapping_add(1)
}

/// Waits for a report that is not older than the ticket.
pub(crate) fn receive(slab: &Slab, ticket: u32, target: &mut [u8]) -> usize {
    let made = &slab.report_words().made;
    for _ in 0..STEPS {
        let seen = made.load(Ordering::SeqCst);
        if seen.wrapping_sub(ticket) as i32 >= 0 {
            if let Some(size) = copy(slab, target) {
                return size;
            }
            // The front writes a newer report: `made` changes when it is complete.
        }
        if slab.phase() == Phase::Closed {
            break;
        }
        Kernel.wait(made, seen, STEP_MS);
    }
    0
}

/// `None`: the report changed while it was copied.
fn copy(slab: &Slab, target: &mut [u8]) -> Option<usize> {
    let words = slab.report_words();
    let version = words.version.load(Ordering::Acquire);
    let size = (words.size.load(Ordering::Relaxed) as usize).min(REPORT_SIZE);
    if let Some(target) = target.get_mut(..size) {
        slab.report().load(0, target);
    }
    fence(Ordering::SeqCst);
    (version % 2 == 0 && words.version.load(Ordering::Relaxed) == version).then_some(size)
}
