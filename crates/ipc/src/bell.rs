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

/// Which exchanges of one front thread have news: a bit per exchange, and a bit per word of these. Workers set bits, and the
/// front takes them. A worker may set any bit at any time, so taking them has a limit.
pub struct Marks<'a> {
    /// Bit per word of `words`: the word may have bits.
    pub summary: &'a AtomicU64,
    /// Bit per exchange. At most 64 words.
    pub words: &'a [AtomicU64],
}

impl Marks<'_> {
    /// Sets a bit, and then the bit of its word: who finds the second finds the first.
    pub fn set(&self, index: usize) {
        set_bit(self.words, index);
        self.summary.fetch_or(1 << (index / 64), Ordering::SeqCst);
    }

    /// Whether there may be bits.
    pub fn are_set(&self) -> bool {
        self.summary.load(Ordering::SeqCst) != 0
    }

    /// Takes bits, `most` of them at most, and calls `each` with their indices. The rest stays set. Cheap if there are none.
    pub fn take(&self, most: usize, mut each: impl FnMut(usize)) {
        if self.summary.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut left = most;
        let mut numbers = self.summary.swap(0, Ordering::SeqCst);
        while numbers != 0 {
            let number = numbers.trailing_zeros() as usize;
            // A worker may have set bits of words that there are not.
            let Some(word) = self.words.get(number) else { return };
            let mut bits = word.swap(0, Ordering::SeqCst);
            while bits != 0 && left > 0 {
                each(number * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
                left -= 1;
            }
            if bits != 0 {
                word.fetch_or(bits, Ordering::SeqCst);
                self.summary.fetch_or(numbers, Ordering::SeqCst);
                return;
            }
            numbers &= numbers - 1;
        }
    }
}

/// A worker's half of the front's sleep: sets a bit, and calls `wake` if the thread has said that it sleeps.
pub fn knock(marks: &Marks<'_>, index: usize, sleeping: &AtomicU32, wake: impl Fn()) {
    marks.set(index);
    fence(Ordering::SeqCst);
    if sleeping.load(Ordering::SeqCst) != 0 && sleeping.swap(0, Ordering::SeqCst) != 0 {
        wake();
    }
}

/// The front's half: says that the thread is about to sleep. False if it must not, because there may be bits.
pub fn may_sleep(marks: &Marks<'_>, sleeping: &AtomicU32) -> bool {
    // A swap, as everywhere where `sleeping` is changed: a worker that takes back an older announcement takes back this one,
    // and wakes the thread.
    sleeping.swap(1, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    !marks.are_set()
}

/// Says that the thread is awake.
pub fn awake(sleeping: &AtomicU32) {
    sleeping.swap(0, Ordering::SeqCst);
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
