//! What a worker wants purged from the cache of responses: a text in the box of its slot.
//!
//! The worker alone writes its box: the text, its size, and then the next number to `asked`. It counts up the lane's `purges`, so that the front
//! finds out with one look that any box has news, and wakes the front. The front copies the text, purges, and stores the number that it has read in
//! `done`, on which the worker sleeps. So the purge has taken effect when the worker goes on. The front keeps in private memory which numbers it
//! has served; of the box it believes nothing but that there are some bytes. A worker may die at any point: a text that is half written is not asked
//! for, and a purge that is asked for and done twice is the same purge.

use crate::atomics::{Ordering, fence};
use crate::bell::Futex;
use crate::layout::{MAX_SLOTS, PURGE_SIZE, Phase};
use crate::ring::Memory;
use crate::slab::Slab;
use crate::sys::Kernel;

/// How long a worker sleeps before it looks whether the front is there at all.
const STEP_MS: u32 = 100;
/// How often it looks before it gives up.
const STEPS: usize = 20;
/// Boxes that are emptied in one turn; the rest waits for the next.
const TURN: usize = 16;

/// What the front knows of a lane's boxes.
pub struct Boxes {
    /// The last number that was served, by slot.
    served: [u32; MAX_SLOTS],
}

impl Default for Boxes {
    fn default() -> Boxes {
        Boxes { served: [0; MAX_SLOTS] }
    }
}

impl Boxes {
    /// Empties boxes: calls `purge` with each text. Returns the count of texts of which all were seen; `None`: there may be more.
    pub fn empty(&mut self, slab: &Slab, mut purge: impl FnMut(&[u8])) -> Option<u32> {
        let seen = slab.purges().load(Ordering::SeqCst);
        let (mut text, mut left) = ([0; PURGE_SIZE], TURN);
        for slot in 0..slab.geometry().slots as usize {
            let Some((words, bytes)) = slab.purge_box(slot) else { break };
            let asked = words.asked.load(Ordering::Acquire);
            if asked == self.served[slot] {
                continue;
            }
            if left == 0 {
                return None;
            }
            left -= 1;
            let size = (words.size.load(Ordering::Relaxed) as usize).min(PURGE_SIZE);
            bytes.load(0, &mut text[..size]);
            purge(&text[..size]);
            self.served[slot] = asked;
            words.done.store(asked, Ordering::SeqCst);
            Kernel.wake(&words.done);
        }
        Some(seen)
    }
}

/// Puts a text into the box of a slot. Returns its number; `None`: it is too long. The caller still has to wake the front.
pub(crate) fn ask(slab: &Slab, slot: usize, text: &[u8]) -> Option<u32> {
    let (words, bytes) = slab.purge_box(slot)?;
    if text.len() > PURGE_SIZE {
        return None;
    }
    bytes.store(0, text);
    words.size.store(text.len() as u32, Ordering::Relaxed);
    let number = words.asked.load(Ordering::Relaxed).wrapping_add(1);
    words.asked.store(number, Ordering::Release);
    fence(Ordering::SeqCst);
    slab.purges().fetch_add(1, Ordering::SeqCst);
    Some(number)
}

/// Waits until the front has purged. False: it has not, because it is gone or stands still.
pub(crate) fn await_done(slab: &Slab, slot: usize, number: u32) -> bool {
    let Some((words, _)) = slab.purge_box(slot) else { return false };
    for _ in 0..STEPS {
        let seen = words.done.load(Ordering::SeqCst);
        if seen == number {
            return true;
        }
        if slab.phase() == Phase::Closed {
            return false;
        }
        Kernel.wait(&words.done, seen, STEP_MS);
    }
    words.done.load(Ordering::SeqCst) == number
}
