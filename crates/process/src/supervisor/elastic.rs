//! Workers that come and go with the load: see [`next_target`] for how many, and [`share_out`] for how lanes share them.

use std::time::{Duration, Instant};

use wire::atomics::Ordering;
use wire::layout::Activity;

use super::Supervisor;
use super::generation::{CLASSIC, Lane, Mailbox};
use super::service::Application;
use crate::plan::{Load, Need, Slot, Want, classic_workers, next_target, share_out};

/// How often a lane in which requests wait is looked at.
const BUSY_TURN: Duration = Duration::from_millis(10);
/// How often another is.
const IDLE_TURN: Duration = Duration::from_secs(1);
/// For so long a lane is looked at as if requests waited after they did: those that took them may be long at it.
const ALERT: Duration = Duration::from_millis(50);

/// How many workers a lane is to have.
pub(super) struct Target {
    /// By its own load; 0: not judged yet.
    workers: usize,
    need: Need,
    /// Of those that it shares with other lanes.
    share: usize,
    /// Since when nothing has waited.
    quiet: Instant,
    /// Until when it is looked at often.
    alert: Instant,
    /// When it is judged again.
    next: Instant,
}

impl Target {
    pub(super) fn new(now: Instant) -> Target {
        Target { workers: 0, need: Need::new(now), share: 0, quiet: now, alert: now, next: now }
    }

    /// As many as the same lane had in the generation before.
    pub(super) fn inherit(&mut self, old: &Target) {
        self.workers = old.workers;
    }

    /// Follows the load.
    fn judge(&mut self, mailbox: &Mailbox, least: usize, most: usize, now: Instant) {
        let load = load(mailbox, now.saturating_duration_since(self.quiet));
        let before = if self.workers == 0 { load.busy() } else { self.workers };
        self.workers = next_target(load, before, least, most);
        if load.waiting > 0 {
            self.quiet = now;
        }
        self.next = now + if load.waiting > 0 || now < self.alert { BUSY_TURN } else { IDLE_TURN };
    }
}

/// What workers do now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Starting,
    Idle,
    Busy,
}

fn state(mailbox: &Mailbox, number: usize) -> State {
    let activity = mailbox.slab.slot(number).map_or(0, |line| line.activity.load(Ordering::Relaxed));
    match (mailbox.slots[number], activity) {
        (Slot::Asked, _) => State::Starting,
        (_, activity) if activity == Activity::Empty as u32 || activity == Activity::Booting as u32 => State::Starting,
        (_, activity) if activity == Activity::Idle as u32 => State::Idle,
        _ => State::Busy,
    }
}

fn load(mailbox: &Mailbox, quiet: Duration) -> Load {
    let staying = (0..mailbox.slots.len()).filter(|number| mailbox.stays(*number));
    let states: Vec<State> = staying.map(|number| state(mailbox, number)).collect();
    let count = |wanted| states.iter().filter(|state| **state == wanted).count();
    Load {
        live: states.len(),
        idle: count(State::Idle),
        starting: count(State::Starting),
        waiting: mailbox.slab.queue().waiting(),
        quiet,
    }
}

/// Lanes that share workers.
struct Pool {
    lanes: Vec<usize>,
    /// So many at most.
    all: usize,
    /// Those that each lane keeps, if there are enough.
    least: usize,
}

impl Supervisor {
    /// Whom a lane shares workers with. With `max_workers` all lanes share; without, those that the configuration does not name:
    /// one line in a file that many scripts include makes as many lanes as there may be.
    fn pool(&self, number: usize, lane: usize) -> Option<Pool> {
        let generation = &self.generations[number];
        let Application { workers, min_workers, max_workers, .. } = *generation.application;
        if let Some(all) = max_workers {
            return Some(Pool { lanes: (0..generation.lanes.len()).collect(), all, least: min_workers });
        }
        let found: Vec<usize> = (0..generation.lanes.len()).filter(|lane| generation.is_found(*lane)).collect();
        let least = if min_workers < workers { min_workers } else { 1 };
        (found.len() > 1 && found.contains(&lane)).then_some(Pool { lanes: found, all: workers, least })
    }

    /// The least and the most workers of a lane.
    fn bounds(&self, number: usize, lane: usize) -> (usize, usize) {
        let generation = &self.generations[number];
        let application = &generation.application;
        if let Some(pool) = self.pool(number, lane) {
            return (pool.least.min(pool.all / pool.lanes.len()).max(1), application.workers.min(pool.all));
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
        let shared = self.pool(number, lane);
        let Lane { target, mailbox: Some(mailbox), .. } = &mut self.generations[number].lanes[lane] else { return 0 };
        if least == most {
            // They do not come and go. Whatever was said before there was another configuration, or lane.
            mailbox.slab.surplus().store(0, Ordering::SeqCst);
            return most;
        }
        let is_due = now >= target.next;
        if is_due {
            target.judge(mailbox, least, most, now);
        }
        match shared {
            None => {
                keep(mailbox, target.workers);
                target.workers
            }
            Some(pool) => {
                match is_due {
                    true => self.share_out(number, &pool, now),
                    // Some may have ended by themselves.
                    false => keep(mailbox, target.share),
                }
                self.share_of(number, lane, &pool)
            }
        }
    }

    /// Shares workers out among the lanes that share them. What a lane has and others are to have ends, if it is idle at
    /// once, else after its request.
    fn share_out(&mut self, number: usize, pool: &Pool, now: Instant) {
        let (able, others): (Vec<usize>, Vec<usize>) =
            pool.lanes.iter().partition(|lane| self.may_fork(number, **lane, now));
        let least = pool.least.min(pool.all / pool.lanes.len()).max(1);
        let lanes = &mut self.generations[number].lanes;
        let kept: usize = others.into_iter().filter_map(|lane| Some(lanes[lane].mailbox.as_ref()?.live())).sum();
        let want = |lane: &usize| {
            let Lane { target, mailbox, .. } = &mut lanes[*lane];
            let load = load(mailbox.as_ref()?, Duration::ZERO);
            Some(target.need.want(load, least, target.workers, now))
        };
        let wants: Vec<Want> = able.iter().filter_map(want).collect();
        for (lane, share) in able.into_iter().zip(share_out(&wants, pool.all.saturating_sub(kept))) {
            let Lane { target, mailbox, .. } = &mut lanes[lane];
            target.share = share;
            mailbox.iter().for_each(|mailbox| keep(mailbox, share));
        }
    }

    /// A lane's share, as far as others have let go of it. One that stays it has in any case.
    fn share_of(&self, number: usize, lane: usize, pool: &Pool) -> usize {
        let held = |lane: &Lane| lane.mailbox.as_ref().map_or(0, Mailbox::live) + lane.retired.len();
        let lanes = &self.generations[number].lanes;
        let Lane { target, mailbox: Some(mailbox), .. } = &lanes[lane] else { return 0 };
        if !(0..mailbox.slots.len()).any(|number| mailbox.stays(number)) {
            return mailbox.live() + 1;
        }
        let room = pool.all.saturating_sub(pool.lanes.iter().filter_map(|lane| lanes.get(*lane)).map(held).sum());
        target.share.min(mailbox.live() + room)
    }

    /// Requests wait in a lane: it is judged at once.
    pub(super) fn lane_is_busy(&mut self, number: usize, lane: usize) {
        let lane = self.generations.get_mut(number).and_then(|generation| generation.lanes.get_mut(lane));
        let now = Instant::now();
        lane.into_iter().for_each(|lane| (lane.target.next, lane.target.alert) = (now, now + ALERT));
    }

    /// When a lane is to be judged next, if its number of workers can change now.
    pub(super) fn next_judgement(&self, number: usize, lane: usize) -> Option<Instant> {
        let (least, most) = self.bounds(number, lane);
        (least < most && self.may_fork(number, lane, Instant::now()))
            .then(|| self.generations[number].lanes[lane].target.next)
    }
}

/// Lets a lane keep so many workers that are ready: as many as are too many end, whoever is idle or gets done first. What asks
/// for the places of those that boot meanwhile waits until they are there.
fn keep(mailbox: &Mailbox, count: usize) {
    // Workers only count down; one that does not play fair has its lane looked at later.
    for _ in 0..8 {
        let before = mailbox.slab.surplus().load(Ordering::SeqCst);
        // From above: low numbers are woken for requests first and have what they need at hand.
        let staying = (0..mailbox.slots.len()).rev().filter(|number| mailbox.stays(*number));
        let states: Vec<(usize, State)> = staying.map(|number| (number, state(mailbox, number))).collect();
        let ready = states.iter().filter(|(_, state)| *state != State::Starting).count();
        let idle = states.iter().filter(|(_, state)| *state == State::Idle).map(|(number, _)| *number);
        let surplus = u32::try_from(ready.saturating_sub(count)).unwrap_or(u32::MAX);
        if before == 0 && surplus == 0 || wire::front::dismiss(&mailbox.slab, before, surplus, idle) {
            return;
        }
    }
}
