//! A lane's slab and what the supervisor knows of its slots, for one front.

use std::os::fd::OwnedFd;
use std::time::Instant;

use wire::atomics::Ordering;
use wire::layout::Activity;
use wire::slab::Slab;

use crate::plan::Slot;

/// What belongs to one epoch of a lane.
pub(super) struct Mailbox {
    pub(super) descriptor: OwnedFd,
    pub(super) slab: Slab,
    pub(super) slots: Vec<Slot>,
    pub(super) started: Vec<Instant>,
    /// How often in a row its slab was found in disorder.
    pub(super) damaged: u32,
    /// The front was told of it.
    pub(super) is_told: bool,
    /// The front has said that it uses it.
    pub(super) is_known: bool,
}

impl Mailbox {
    /// Workers that live or were asked for.
    pub(super) fn live(&self) -> usize {
        self.slots.iter().filter(|slot| matches!(slot, Slot::Live(_) | Slot::Asked)).count()
    }

    /// Whether there is or will be one in that slot which does not end.
    pub(super) fn stays(&self, slot: usize) -> bool {
        let is_leaving = || self.slab.slot(slot).is_some_and(|line| line.leaves.load(Ordering::SeqCst) != 0);
        matches!(self.slots[slot], Slot::Live(_) | Slot::Asked) && !is_leaving()
    }

    /// Whether the worker in that slot has come to wait for requests. Its own word.
    pub(super) fn has_begun(&self, slot: usize) -> bool {
        self.slab.slot(slot).is_some_and(|line| line.activity.load(Ordering::Relaxed) >= Activity::Idle as u32)
    }

    /// A worker is asked for.
    pub(super) fn ask(&mut self, slot: usize, now: Instant) {
        (self.slots[slot], self.started[slot]) = (Slot::Asked, now);
        self.slab.slot(slot).into_iter().for_each(|line| line.leaves.store(0, Ordering::SeqCst));
    }
}
