//! Who has an exchange: one word that both sides change by compare-and-swap, and nothing else.
//!
//! | from | to | who | meaning |
//! |---|---|---|---|
//! | `Free` | `Queued` | front | a request is in the mailbox and its entry in the queue |
//! | `Queued` | `Free` | front | withdrawn: its client left, or it waited too long |
//! | `Queued` | `Claimed` | worker | a worker has it; PHP has not been entered |
//! | `Claimed` | `Running` | worker | PHP is entered: from here on the request is never run again |
//! | `Running` | `Done` | worker | the response is complete; the worker does not touch the exchange again |
//! | `Claimed`, `Running` | `Free` | front | only after the worker's slot was reaped |
//! | `Done` | `Free` | front | everything was read and zeroed |
//!
//! The sequence number changes with every submission, so a word or queue entry of an earlier request never matches.

use crate::atomics::{AtomicU64, Ordering};

/// Where a request is in its exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Nobody's; its bytes are zero.
    Free = 0,
    /// In the queue.
    Queued = 1,
    /// A worker has it, PHP has not been entered.
    Claimed = 2,
    /// PHP runs it.
    Running = 3,
    /// The response is complete.
    Done = 4,
}

/// An owner word, taken apart: sequence in bits 32–63, slot in bits 8–23, state in bits 0–7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Number of the submission.
    pub sequence: u32,
    /// The claiming worker's slot; 0 while free or queued.
    pub slot: u16,
    /// What it is doing.
    pub state: State,
}

impl Owner {
    /// The word for these three.
    pub const fn pack(sequence: u32, slot: u16, state: State) -> u64 {
        (sequence as u64) << 32 | (slot as u64) << 8 | state as u64
    }

    /// Takes a word apart; `None` if no worker or front of ours can have written it.
    pub const fn unpack(word: u64) -> Option<Owner> {
        let state = match word as u8 {
            0 => State::Free,
            1 => State::Queued,
            2 => State::Claimed,
            3 => State::Running,
            4 => State::Done,
            _ => return None,
        };
        if word >> 24 & 0xff != 0 {
            return None;
        }
        Some(Owner { sequence: (word >> 32) as u32, slot: (word >> 8) as u16, state })
    }
}

/// One step of the table above. True if this caller made it.
pub fn step(word: &AtomicU64, from: u64, to: u64) -> bool {
    word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
}
