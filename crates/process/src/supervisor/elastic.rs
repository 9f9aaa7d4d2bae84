//! Workers that come and go with the load: see [`next_target`] for how many.

use std::time::{Duration, Instant};

use wire::atomics::Ordering;
use wire::layout::Activity;

use super::Supervisor;
use super::generation::{CLASSIC, Mailbox};
use crate::plan::{Load, Slot, classic_workers, next_target};

/// How often a lane in which requests wait is looked at.
const BUSY_TURN: Duration = Duration::from_millis(10);
/// How often another is.
const IDLE_TURN: Duration = Duration::from_secs(1);

/// How many workers a lane is to have.
pub(super) struct Target {
    pub(super) workers: usize,
    /// Since when nothing has waited.
    quiet: Instant,
    /// When it is judged again.
    next: Instant,
}

impl Target {
    pub(super) fn new(now: Instant) -> Target {
        Target { workers: 0, quiet: now, next: now }
    }
}

fn load(mailbox: &Mailbox, quiet: Duration) -> Load {
    let slots = || mailbox.slots.iter().enumerate();
    let is_idle = |number: usize| {
        let line = mailbox.slab.slot(number);
        line.is_some_and(|line| line.activity.load(Ordering::Relaxed) == Activity::Idle as u32)
    };
    Load {
        live: slots().filter(|(_, slot)| matches!(slot, Slot::Live(_) | Slot::Asked)).count(),
        idle: slots()
            .filter(|(number, slot)| matches!(slot, Slot::Asked) || matches!(slot, Slot::Live(_)) && is_idle(*number))
            .count(),
        waiting: mailbox.slab.queue().waiting(),
        quiet,
    }
}

impl Supervisor {
    /// The most and the least workers of a lane.
    fn bounds(&self, number: usize, lane: usize) -> (usize, usize) {
        let generation = &self.generations[number];
        let application = &generation.application;
        let is_beside = generation.lanes[1..].iter().any(|lane| !lane.has_failed);
        let most = match lane {
            CLASSIC => classic_workers(application.workers, is_beside, self.service.cpus),
            _ => application.workers,
        };
        (application.min_workers.min(most), most)
    }

    /// How many workers a lane is to have now.
    pub(super) fn wanted_workers(&mut self, number: usize, lane: usize, now: Instant) -> usize {
        let (least, most) = self.bounds(number, lane);
        let of_lane = &mut self.generations[number].lanes[lane];
        let (target, Some(mailbox)) = (&mut of_lane.target, &of_lane.mailbox) else { return 0 };
        if least == most {
            return most;
        }
        if now >= target.next {
            let load = load(mailbox, now.saturating_duration_since(target.quiet));
            target.workers = next_target(load, target.workers, least, most);
            if load.waiting > 0 {
                target.quiet = now;
            }
            target.next = now + if load.waiting > 0 { BUSY_TURN } else { IDLE_TURN };
            retire(mailbox, load.live.saturating_sub(target.workers));
        }
        target.workers
    }

    /// Requests wait in a lane: it is judged at once.
    pub(super) fn lane_is_busy(&mut self, number: usize, lane: usize) {
        let lane = self.generations.get_mut(number).and_then(|generation| generation.lanes.get_mut(lane));
        lane.into_iter().for_each(|lane| lane.target.next = Instant::now());
    }

    /// When a lane is to be judged next, if its number of workers can change now.
    pub(super) fn next_judgement(&self, number: usize, lane: usize) -> Option<Instant> {
        let (least, most) = self.bounds(number, lane);
        (least < most && self.may_fork(number, lane, Instant::now()))
            .then(|| self.generations[number].lanes[lane].target.next)
    }
}

/// Asks idle workers to end. One that gets a request meanwhile serves it and ends then.
fn retire(mailbox: &Mailbox, count: usize) {
    let live = mailbox.slots.iter().enumerate().rev().filter(|(_, slot)| matches!(slot, Slot::Live(_)));
    let lines = live.filter_map(|(number, _)| mailbox.slab.slot(number));
    let idle = lines.filter(|line| line.activity.load(Ordering::Relaxed) == Activity::Idle as u32);
    for line in idle.take(count) {
        line.leave.store(1, Ordering::Relaxed);
    }
}
