//! The queue of a lane: many producers serialised by the front's own lock, any number of workers as consumers.
//!
//! An entry names (exchange, sequence). A consumer takes it with one compare-and-swap of the head and then claims the
//! exchange with one compare-and-swap of its owner word. A consumer that is killed between the two leaves an exchange
//! that is still `Queued` although its entry is gone: the front finds it by position and queues it again. If the
//! consumer was only slow, there are two entries for one owner word, and the word decides.

use crate::atomics::{AtomicU64, Ordering};
use crate::owner::{Owner, State, step};

/// The queue was full. The front refuses the request with 503, or removes stale entries first.
#[derive(Debug, PartialEq, Eq)]
pub struct Full;

/// A view of the queue's words, wherever they live.
pub struct Queue<'a> {
    /// Next position to take. Written by consumers.
    pub head: &'a AtomicU64,
    /// Next position to fill. Written by the producer alone, whose private copy is the truth.
    pub tail: &'a AtomicU64,
    /// A power of two of entries.
    pub cells: &'a [AtomicU64],
}

/// Makes the entry for an exchange and its sequence.
pub const fn entry(exchange: u32, sequence: u32) -> u64 {
    (exchange as u64) << 32 | sequence as u64
}

/// The exchange and sequence of an entry.
pub const fn unpack(entry: u64) -> (u32, u32) {
    ((entry >> 32) as u32, entry as u32)
}

impl Queue<'_> {
    fn cell(&self, position: u64) -> &AtomicU64 {
        &self.cells[(position & (self.cells.len() as u64 - 1)) as usize]
    }

    /// Appends an entry. `tail` is the producer's private position; the shared one is only published.
    pub fn push(&self, tail: &mut u64, entry: u64) -> Result<(), Full> {
        // A head beyond the tail was forged by a worker; a head too far behind the tail means a full queue. Both refuse.
        if tail.wrapping_sub(self.head.load(Ordering::Acquire)) >= self.cells.len() as u64 {
            return Err(Full);
        }
        self.cell(*tail).store(entry, Ordering::Relaxed);
        *tail = tail.wrapping_add(1);
        self.tail.store(*tail, Ordering::SeqCst);
        Ok(())
    }

    /// Takes the oldest entry. Safe to call from any number of processes.
    pub fn pop(&self) -> Option<u64> {
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let tail = self.tail.load(Ordering::SeqCst);
            if head == tail {
                return None;
            }
            let entry = self.cell(head).load(Ordering::Relaxed);
            match self.head.compare_exchange(head, head.wrapping_add(1), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(entry),
                Err(now) => head = now,
            }
        }
    }

    /// How many entries wait, stale ones included; no more than there are cells, whatever the head claims.
    pub fn waiting(&self) -> usize {
        let count = self.tail.load(Ordering::SeqCst).wrapping_sub(self.head.load(Ordering::SeqCst));
        count.min(self.cells.len() as u64) as usize
    }

    /// True if there is nothing to take.
    pub fn is_empty(&self) -> bool {
        self.head.load(Ordering::SeqCst) == self.tail.load(Ordering::SeqCst)
    }

    /// Takes entries until one can be claimed for `slot`. Returns its exchange and sequence.
    pub fn claim<'o>(&self, slot: u16, owner_of: impl Fn(u32) -> Option<&'o AtomicU64>) -> Option<(u32, u32)> {
        while let Some(taken) = self.pop() {
            let (exchange, sequence) = unpack(taken);
            let Some(word) = owner_of(exchange) else { continue };
            let queued = Owner::pack(sequence, 0, State::Queued);
            if step(word, queued, Owner::pack(sequence, slot, State::Claimed)) {
                return Some((exchange, sequence));
            }
        }
        None
    }
}
