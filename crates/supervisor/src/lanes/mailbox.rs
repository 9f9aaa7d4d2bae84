//! A lane's slab and what the supervisor knows of its slots, for one front.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use ipc::atomics::Ordering;
use ipc::layout::Activity;
use ipc::slab::Slab;

use crate::plan::Slot;

/// What belongs to one epoch of a lane.
pub(crate) struct Mailbox {
    pub(crate) descriptor: OwnedFd,
    pub(crate) slab: Slab,
    pub(crate) slots: Vec<Slot>,
    started: Vec<Instant>,
    /// How many looks in a row have found the slab damaged.
    damaged: u32,
    /// The front was told of it.
    pub(crate) is_told: bool,
    /// The front has said that it uses it.
    pub(crate) is_known: bool,
}

/// A worker that was reaped, by its forker or by this process.
#[derive(Clone, Copy)]
pub(crate) struct WorkerDeath {
    pub(crate) slot: u32,
    /// 0 if it was never forked.
    pub(crate) pid: i32,
    pub(crate) status: i32,
    pub(crate) epoch: u64,
    /// Microseconds of processor time that it has taken, and its forker to fork it.
    pub(crate) processor_us: u32,
}

impl Mailbox {
    /// With a new slab, which nobody knows yet.
    pub(crate) fn new(descriptor: OwnedFd, slab: Slab, now: Instant) -> Mailbox {
        let slots = vec![Slot::Empty; slab.geometry().slots as usize];
        let started = vec![now; slots.len()];
        Mailbox { descriptor, slab, slots, started, damaged: 0, is_told: false, is_known: false }
    }

    /// Workers that live or were asked for.
    pub(crate) fn live(&self) -> usize {
        self.slots.iter().filter(|slot| matches!(slot, Slot::Live(_) | Slot::Asked)).count()
    }

    /// Workers that live: their slot and process.
    pub(crate) fn live_workers(&self) -> impl Iterator<Item = (usize, i32)> {
        let live = |(slot, state): (usize, &Slot)| if let Slot::Live(pid) = *state { Some((slot, pid)) } else { None };
        self.slots.iter().enumerate().filter_map(live)
    }

    /// Whether the slot has a worker that has not been told to end, or will have one.
    pub(crate) fn stays(&self, slot: usize) -> bool {
        let is_leaving = || self.slab.slot(slot).is_some_and(|line| line.leaves.load(Ordering::SeqCst) != 0);
        matches!(self.slots.get(slot), Some(Slot::Live(_) | Slot::Asked)) && !is_leaving()
    }

    /// Whether the worker in that slot has come to wait for requests, by what the worker itself has written.
    pub(crate) fn has_begun(&self, slot: usize) -> bool {
        self.slab.slot(slot).is_some_and(|line| line.activity.load(Ordering::Relaxed) >= Activity::Idle as u32)
    }

    /// How many requests the worker in that slot has had, by what the worker itself has written.
    pub(crate) fn requests_of(&self, slot: usize) -> u64 {
        self.slab.slot(slot).map_or(0, |line| line.requests.load(Ordering::Relaxed))
    }

    /// Looks whether the slab is damaged. True when so many `looks` in a row have found damage, and again after each `pause`.
    pub(crate) fn is_damaged(&mut self, looks: u32, pause: u32) -> bool {
        self.damaged = if self.slab.is_intact() { 0 } else { self.damaged + 1 };
        self.damaged % pause == looks
    }

    /// How long ago a worker was asked for in that slot.
    pub(crate) fn age(&self, slot: usize) -> Duration {
        self.started.get(slot).map_or(Duration::ZERO, Instant::elapsed)
    }

    /// A worker is asked for.
    pub(crate) fn ask(&mut self, slot: usize, now: Instant) {
        let (Some(state), Some(started)) = (self.slots.get_mut(slot), self.started.get_mut(slot)) else { return };
        (*state, *started) = (Slot::Asked, now);
        self.slab.slot(slot).into_iter().for_each(|line| line.leaves.store(0, Ordering::SeqCst));
    }
}
