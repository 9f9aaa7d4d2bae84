//! What a lane counts for the status page.

use std::sync::atomic::Ordering;

use wire::layout::{RECYCLES, Slot};

use super::{Lane, lock};

/// The most there was of something.
#[derive(Clone, Copy, Default)]
pub(super) struct Most {
    waiting: usize,
    in_flight: usize,
    /// How often there came to be more requests than workers.
    saturated: u64,
    is_saturated: bool,
}

/// A lane at one moment, for the status page.
pub struct Count {
    /// Its key; empty: classic.
    pub key: String,
    /// Requests posted since the front began.
    pub accepted: u64,
    /// Requests that wait for a worker.
    pub waiting: usize,
    /// The most that waited at once.
    pub most_waiting: usize,
    /// The most requests at once that had a worker.
    pub most_active: usize,
    /// How often there came to be more requests than workers.
    pub saturated: u64,
    /// Ended workers by reason: their word.
    pub recycles: [u64; RECYCLES],
    /// Fast and scanned rewinds of living workers: their word.
    pub rewinds: [u64; 2],
    /// Process, [`wire::layout::Activity`] and requests of each worker: their word.
    pub workers: Vec<(u32, u32, u64)>,
}

impl Most {
    pub(super) fn note(&mut self, in_flight: usize, waiting: usize, workers: usize) {
        self.in_flight = self.in_flight.max(in_flight);
        self.waiting = self.waiting.max(waiting);
        let is_saturated = in_flight > workers;
        self.saturated += u64::from(is_saturated && !self.is_saturated);
        self.is_saturated = is_saturated;
    }
}

impl Lane {
    /// What the status page wants to know.
    pub fn count(&self) -> Count {
        let desk = lock(&self.desk);
        let (accepted, most) = (desk.next_id, desk.most);
        drop(desk);
        let slots = (0..self.slab.geometry().slots as usize).filter_map(|number| self.slab.slot(number));
        let worker = |slot: &Slot| {
            let pid = slot.pid.load(Ordering::Relaxed);
            (pid, slot.activity.load(Ordering::Relaxed), slot.requests.load(Ordering::Relaxed))
        };
        let slots_of = || (0..self.slab.geometry().slots as usize).filter_map(|number| self.slab.slot(number));
        let live = || slots_of().filter(|slot| slot.pid.load(Ordering::Relaxed) != 0);
        let sum = |of: fn(&Slot) -> u64| live().map(of).fold(0, u64::wrapping_add);
        Count {
            recycles: self.slab.recycles().each_ref().map(|count| count.load(Ordering::Relaxed)),
            rewinds: [
                sum(|slot| slot.fast_rewinds.load(Ordering::Relaxed)),
                sum(|slot| slot.scanned_rewinds.load(Ordering::Relaxed)),
            ],
            key: self.key.clone(),
            accepted,
            waiting: self.slab.queue().waiting(),
            most_waiting: most.waiting,
            most_active: most.in_flight.min(self.max_workers),
            saturated: most.saturated,
            workers: slots.map(worker).filter(|(pid, ..)| *pid != 0).collect(),
        }
    }
}
