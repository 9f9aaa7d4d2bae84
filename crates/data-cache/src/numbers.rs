//! What a segment has done and holds, in numbers. Any process of the application can write any number into it: nothing follows from them
//! here, and no sum of them panics.

use core::sync::atomic::Ordering;

use crate::alive::Who;
use crate::layout::COUNTERS;
use crate::process::Process;

/// What it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// Bytes of the segment.
    pub memory: u64,
    /// Bytes of the largest value.
    pub largest: u64,
    /// Bytes of linked values.
    pub bytes: u64,
    /// Values.
    pub entries: u64,
    /// Values that made room for others.
    pub evicted: u64,
    /// Values that were not stored, because no memory may be used again yet.
    pub refused: u64,
    /// Processes that died and were swept.
    pub swept: u64,
    /// Times that the lock was taken from the dead.
    pub taken_over: u64,
    /// Bytes that may not be used again yet.
    pub held: u64,
    /// Process that holds them longest; 0: none, or nothing is held.
    pub holder: u32,
    /// For how long, in milliseconds.
    pub held_ms: u64,
}

/// What is known of the store that is shared with other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreNumbers {
    /// Whether it can be asked.
    pub is_ready: bool,
    /// Milliseconds since all news of other nodes were known; `None`: they never were, as with a store that has no bus.
    pub heard_ms: Option<u64>,
    /// Changes of which other nodes were not told yet.
    pub untold: u64,
    /// Requests of workers.
    pub requests: u64,
    /// Of those, the ones to which the store had no reply.
    pub failures: u64,
    /// Values and messages whose signature was not right.
    pub forged: u64,
}

impl Process {
    /// What all processes have counted.
    pub fn counted(&self) -> [u64; COUNTERS] {
        let mut sums = [0u64; COUNTERS];
        for (number, sum) in sums.iter_mut().enumerate() {
            *sum = self.view.header().counted[number].load(Ordering::Relaxed);
            for reader in self.readers() {
                *sum = sum.wrapping_add(self.view.reader(reader).counted[number].load(Ordering::Relaxed));
            }
        }
        sums
    }

    /// The process whose request has held values longest, and since when.
    pub fn holder(&self) -> Option<(u32, u64)> {
        let held = self.readers().map(|number| self.view.reader(number));
        let held = held.filter(|reader| reader.epoch.load(Ordering::Relaxed) != 0);
        let held =
            held.map(|reader| (Who(reader.who.load(Ordering::Relaxed)).pid(), reader.since.load(Ordering::Relaxed)));
        held.min_by_key(|(_, since)| *since)
    }

    /// What the segment holds.
    pub fn numbers(&self, now: u64) -> Numbers {
        let (view, header) = (self.view, self.view.header());
        let (bytes, held) = view.used();
        let holder = self.holder();
        Numbers {
            memory: view.geometry.size,
            largest: view.geometry.largest(),
            bytes,
            entries: header.entries.load(Ordering::Relaxed),
            evicted: header.evicted.load(Ordering::Relaxed),
            refused: header.refused.load(Ordering::Relaxed),
            swept: header.swept.load(Ordering::Relaxed),
            taken_over: header.taken_over.load(Ordering::Relaxed),
            held,
            holder: holder.map_or(0, |(pid, _)| pid),
            held_ms: holder.map_or(0, |(_, since)| now.saturating_sub(since)),
        }
    }
}
