//! Workers that come and go with the load: see [`next_target`] for how many, and [`share_out`] for how lanes share them.

use std::time::{Duration, Instant};

use wire::atomics::Ordering;
use wire::layout::Activity;

use super::Supervisor;
use super::generation::{CLASSIC, Lane, Mailbox};
use crate::plan::{Load, Slot, Want, classic_workers, next_target, share_out};

/// How often a lane in which requests wait is looked at.
const BUSY_TURN: Duration = Duration::from_millis(10);
/// How often another is.
const IDLE_TURN: Duration = Duration::from_secs(1);

/// How many workers a lane is to have.
pub(super) struct Target {
    /// By its own load.
    workers: usize,
    /// Of those that it shares with other lanes.
    share: usize,
    /// Since when nothing has waited.
    quiet: Instant,
    /// When it is judged again.
    next: Instant,
}

impl Target {
    pub(super) fn new(now: Instant) -> Target {
        Target { workers: 0, share: 0, quiet: now, next: now }
    }

    fn load(&self, mailbox: &Mailbox, now: Instant) -> Load {
        let slots = || mailbox.slots.iter().enumerate();
        Load {
            live: mailbox.live(),
            idle: slots()
                .filter(|(number, slot)| {
                    matches!(slot, Slot::Asked) || matches!(slot, Slot::Live(_)) && is_idle(mailbox, *number)
                })
                .count(),
            waiting: mailbox.slab.queue().waiting(),
            quiet: now.saturating_duration_since(self.quiet),
        }
    }

    /// Follows the load.
    fn judge(&mut self, mailbox: &Mailbox, least: usize, most: usize, now: Instant) {
        let load = self.load(mailbox, now);
        self.workers = next_target(load, self.workers, least, most);
        if load.waiting > 0 {
            self.quiet = now;
        }
        self.next = now + if load.waiting > 0 { BUSY_TURN } else { IDLE_TURN };
    }
}

impl Supervisor {
    /// The least and the most workers of a lane.
    fn bounds(&self, number: usize, lane: usize) -> (usize, usize) {
        let generation = &self.generations[number];
        let application = &generation.application;
        if let Some(all) = application.max_workers {
            return (application.min_workers.min(all / generation.lanes.len()).max(1), application.workers.min(all));
        }
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
        if least == most {
            return most;
        }
        let shared = self.generations[number].application.max_workers;
        let of_lane = &mut self.generations[number].lanes[lane];
        let (target, Some(mailbox)) = (&mut of_lane.target, &of_lane.mailbox) else { return 0 };
        let is_due = now >= target.next;
        if is_due {
            target.judge(mailbox, least, most, now);
        }
        match shared {
            None => {
                if is_due {
                    let idle = |number| is_idle(mailbox, number);
                    dismiss(mailbox, mailbox.live().saturating_sub(target.workers), idle);
                }
                target.workers
            }
            Some(all) => {
                if is_due {
                    self.share_out(number, all, now);
                }
                self.share_of(number, lane, all)
            }
        }
    }

    /// Shares an application's workers out among its lanes. What a lane has and others are to have ends, if it is idle at
    /// once, else after its request.
    fn share_out(&mut self, number: usize, all: usize, now: Instant) {
        let able = (0..self.generations[number].lanes.len()).filter(|lane| self.may_fork(number, *lane, now));
        let lanes: Vec<usize> = able.collect();
        let generation = &mut self.generations[number];
        let want = |lane: &usize| {
            let Lane { target, mailbox, .. } = &generation.lanes[*lane];
            mailbox.as_ref().map(|mailbox| Want::of(target.load(mailbox, now), target.workers))
        };
        let wants: Vec<Want> = lanes.iter().filter_map(want).collect();
        for (lane, share) in lanes.into_iter().zip(share_out(&wants, all)) {
            let Lane { target, mailbox, .. } = &mut generation.lanes[lane];
            target.share = share;
            mailbox.iter().for_each(|mailbox| dismiss(mailbox, mailbox.live().saturating_sub(share), |_| true));
        }
    }

    /// A lane's share, as far as others have let go of it; its first worker it gets in any case.
    fn share_of(&self, number: usize, lane: usize, all: usize) -> usize {
        let live = |lane: &Lane| lane.mailbox.as_ref().map_or(0, Mailbox::live);
        let lanes = &self.generations[number].lanes;
        let room = all.saturating_sub(lanes.iter().map(live).sum());
        lanes[lane].target.share.min(live(&lanes[lane]) + room).max(1)
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

fn is_idle(mailbox: &Mailbox, number: usize) -> bool {
    let line = mailbox.slab.slot(number);
    line.is_some_and(|line| line.activity.load(Ordering::Relaxed) == Activity::Idle as u32)
}

/// Asks so many of those workers to end: those that were asked before first, then idle ones.
fn dismiss(mailbox: &Mailbox, count: usize, may_end: impl Fn(usize) -> bool) {
    let numbers = (0..mailbox.slots.len()).rev();
    let mut workers: Vec<_> = numbers
        .filter(|number| matches!(mailbox.slots[*number], Slot::Live(_)) && may_end(*number))
        .filter_map(|number| {
            let line = mailbox.slab.slot(number)?;
            Some((line.leave.load(Ordering::Relaxed) == 0, !is_idle(mailbox, number), line))
        })
        .collect();
    workers.sort_by_key(|(is_new, is_busy, _)| (*is_new, *is_busy));
    workers.iter().take(count).filter(|(is_new, ..)| *is_new).for_each(|(.., line)| wire::front::dismiss(line));
}
