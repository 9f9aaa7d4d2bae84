//! Waiting and waking, with the wake-up left out when the other side is awake.
//!
//! Every sleeper follows the same order: announce (store), fence, look again, sleep. Every waker: change (store), fence,
//! look for an announcement. Of the two fences one comes first, so either the sleeper sees the change or the waker sees
//! the announcement (modelled in tests/model.rs). The futex is a trait so that the model checker can take its place.

use crate::atomics::{AtomicU32, AtomicU64, Ordering, fence};

/// Sleeping on a word and waking its sleepers.
pub trait Futex {
    /// Sleeps while `*word == expected`, at most `timeout_ms`.
    fn wait(&self, word: &AtomicU32, expected: u32, timeout_ms: u32);
    /// Wakes everybody who sleeps on `word`.
    fn wake(&self, word: &AtomicU32);
}

/// Waits until `ready` holds or the time is over. `waiting` is this sleeper's announcement. Returns what `ready` said last.
pub fn wait_until(
    futex: &impl Futex,
    bell: &AtomicU32,
    waiting: &AtomicU32,
    timeout_ms: u32,
    ready: impl Fn() -> bool,
) -> bool {
    let seen = bell.load(Ordering::Acquire);
    waiting.store(1, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    if !ready() {
        futex.wait(bell, seen, timeout_ms);
    }
    waiting.store(0, Ordering::SeqCst);
    ready()
}

/// Wakes the sleeper of `bell` if it has announced itself. To be called after the change was published.
pub fn ring(futex: &impl Futex, bell: &AtomicU32, waiting: &AtomicU32) {
    fence(Ordering::SeqCst);
    if waiting.load(Ordering::SeqCst) != 0 {
        bell.fetch_add(1, Ordering::Release);
        futex.wake(bell);
    }
}

/// Sets a sleeper's bit in a bitmap.
pub fn set_bit(words: &[AtomicU64], index: usize) {
    words[index / 64].fetch_or(1 << (index % 64), Ordering::SeqCst);
}

/// Clears a bit. True if it was this caller that cleared it.
pub fn clear_bit(words: &[AtomicU64], index: usize) -> bool {
    let bit = 1 << (index % 64);
    words[index / 64].fetch_and(!bit, Ordering::SeqCst) & bit != 0
}

/// Clears the lowest bit that is set and returns its index. Low slots are preferred, so that few workers stay warm.
pub fn take_lowest(words: &[AtomicU64]) -> Option<usize> {
    for (number, word) in words.iter().enumerate() {
        loop {
            let seen = word.load(Ordering::SeqCst);
            if seen == 0 {
                break;
            }
            let index = number * 64 + seen.trailing_zeros() as usize;
            if clear_bit(words, index) {
                return Some(index);
            }
        }
    }
    None
}
