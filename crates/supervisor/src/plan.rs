//! The supervisor's decisions, without clocks, processes or descriptors, so that each can be tested by itself.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use control::status::ServerState;

/// First delay after a failed start.
pub const FIRST_DELAY: Duration = Duration::from_millis(100);
/// Longest delay between starts.
pub const LAST_DELAY: Duration = Duration::from_secs(25);
/// Listeners of a server at most, those for monitoring included.
pub const MAX_LISTENERS: usize = 64;
/// Files that the front gets with its settings, at most.
pub const MAX_FILES: usize = 8;
/// Applications of a server whose root is a phar, at most.
pub const MAX_PHARS: usize = 16;
/// A process that lived this long has started well.
pub const HEALTHY_AFTER: Duration = Duration::from_secs(10);

/// Delays between starts of something that keeps failing.
#[derive(Debug, Default)]
pub struct BackOff {
    failures: u32,
}

impl BackOff {
    /// Notes a death: after `lived`, having done any work or not. Returns how long to wait before the next start.
    pub fn died(&mut self, lived: Duration, worked: bool) -> Duration {
        if worked || lived >= HEALTHY_AFTER {
            self.failures = 0;
            return Duration::ZERO;
        }
        let delay = FIRST_DELAY.saturating_mul(1 << self.failures.min(16)).min(LAST_DELAY);
        self.failures += 1;
        delay
    }

    /// Notes that it works.
    pub fn works(&mut self) {
        self.failures = 0;
    }
}

/// What is in a slot of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Nothing; may be filled.
    Empty,
    /// The prototype was asked for a worker.
    Asked,
    /// A worker.
    Live(i32),
    /// Its worker is dead and reaped; the front still has to free the slot.
    Leaving,
}

/// The slots to fill so that `wanted` workers live, lowest first. Slots that are leaving are not counted as workers and
/// not reused.
pub fn slots_to_fill(slots: &[Slot], wanted: usize) -> Vec<usize> {
    let alive = slots.iter().filter(|slot| matches!(slot, Slot::Asked | Slot::Live(_))).count();
    let empty = slots.iter().enumerate().filter(|(_, slot)| **slot == Slot::Empty).map(|(number, _)| number);
    empty.take(wanted.saturating_sub(alive)).collect()
}

/// Crashes within [`CRASH_WINDOW`] that make a generation suspect.
const MAX_CRASHES: usize = 20;
/// See [`MAX_CRASHES`].
const CRASH_WINDOW: Duration = Duration::from_secs(60);
/// A second worker that had to be killed within this time makes a generation suspect: perhaps both waited for a lock that
/// a dead one holds.
const STUCK_WINDOW: Duration = Duration::from_secs(10);

/// So many workers that could not use their slab within [`UNHEALTHY_WINDOW`] make a generation suspect.
const MAX_UNHEALTHY: usize = 4;
/// See [`MAX_UNHEALTHY`].
const UNHEALTHY_WINDOW: Duration = Duration::from_secs(30);

/// Whether the memory that workers of a generation share may be damaged.
#[derive(Debug, Default)]
pub struct Suspicion {
    crashes: VecDeque<Duration>,
    last_stuck: Option<Duration>,
    unhealthy: VecDeque<Duration>,
}

impl Suspicion {
    /// A worker was killed at that time by a signal that the supervisor has not sent. True if that makes the generation suspect.
    pub fn crashed(&mut self, now: Duration) -> bool {
        self.crashes.retain(|then| now.saturating_sub(*then) < CRASH_WINDOW);
        self.crashes.push_back(now);
        self.crashes.len() >= MAX_CRASHES
    }

    /// A worker could not use its slab, at that time. True if so many could not that the slab must be damaged.
    pub fn unhealthy(&mut self, now: Duration) -> bool {
        self.unhealthy.retain(|then| now.saturating_sub(*then) < UNHEALTHY_WINDOW);
        self.unhealthy.push_back(now);
        let is_suspect = self.unhealthy.len() >= MAX_UNHEALTHY;
        if is_suspect {
            self.unhealthy.clear();
        }
        is_suspect
    }

    /// A worker was killed because its request exceeded the hard limit. True if that makes the generation suspect.
    pub fn stuck(&mut self, now: Duration) -> bool {
        self.last_stuck.replace(now).is_some_and(|then| now.saturating_sub(then) < STUCK_WINDOW)
    }
}

/// Bytes of a script's name at most.
pub const MAX_NAME: usize = 1024;

/// A script's name below the root, as the front reports it. Only the name is checked, not whether there is such a file.
pub fn script_name(bytes: &[u8]) -> Result<&str, &'static str> {
    let name = std::str::from_utf8(bytes).map_err(|_| "its name is not UTF-8")?;
    if name.len() > MAX_NAME {
        Err("its name is too long")
    } else if !name.starts_with('/') || name.contains("..") || name.contains(['\0', '\n']) {
        Err("its name is not a path below the root")
    } else if !name.ends_with(".php") && !name.ends_with(".phar") {
        Err("its name does not end in .php")
    } else {
        Ok(name)
    }
}

/// Workers of a classic lane. Beside a snapshot lane, which runs most requests, it needs no more than the CPUs can run.
pub fn classic_workers(configured: usize, is_beside: bool, cpus: usize) -> usize {
    if is_beside { configured.min(4 * cpus) } else { configured }
}

/// The load of a lane whose number of workers changes.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Workers that live or were asked for, and are to stay.
    pub live: usize,
    /// Those of them that have no request.
    pub idle: usize,
    /// Those of them that have not started yet.
    pub starting: usize,
    /// Requests that no worker has taken.
    pub waiting: usize,
    /// How long nothing has waited.
    pub quiet: Duration,
}

/// How long no request has to have waited before workers are dismissed.
pub const QUIET: Duration = Duration::from_secs(10);

/// How many workers a lane should have, between `least` and `most`, if it should have had `target` so far. The number grows by the
/// requests that wait, but at most doubles at once. It falls by one at a time, and stays a quarter above the busy workers.
pub fn next_target(load: Load, target: usize, least: usize, most: usize) -> usize {
    let least = least.min(most);
    let unmet = load.waiting.saturating_sub(load.starting);
    if unmet > 0 && load.idle == 0 {
        return (load.live + unmet.min(load.live.max(1))).max(target).clamp(least, most);
    }
    if load.quiet >= QUIET && load.idle > 0 && target > with_spare(load.busy()) {
        return (target - 1).clamp(least, most);
    }
    target.clamp(least, most)
}

/// What a lane wants of the workers that an application's lanes share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Want {
    /// As many as it would have if it did not share.
    pub target: usize,
    /// As many as it has work for, or had lately, and a few more.
    pub needed: usize,
}

impl Load {
    /// Workers with a request.
    pub fn busy(self) -> usize {
        self.live.saturating_sub(self.idle + self.starting)
    }

    /// As many as have work, and a few more.
    fn needed(self) -> usize {
        with_spare(self.busy()).max(self.busy() + self.waiting)
    }
}

/// How many workers a lane has needed lately. A burst counts for a while: otherwise workers would move back and forth between lanes
/// that are busy in turns.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    most: usize,
    since: Instant,
}

/// The need falls by one in so long.
const NEED_FALLS: Duration = Duration::from_millis(100);

impl Need {
    /// Of a lane that has needed nothing yet.
    pub fn new(now: Instant) -> Need {
        Need { most: 0, since: now }
    }

    /// What a lane wants under that load, if it has to have `least` workers and would have `target` without sharing.
    pub fn want(&mut self, load: Load, least: usize, target: usize, now: Instant) -> Want {
        let falls = now.saturating_duration_since(self.since).as_millis() / NEED_FALLS.as_millis();
        // The need must not fall before the workers that boot for it are ready.
        let falls = if load.starting > 0 { 0 } else { u32::try_from(falls).unwrap_or(u32::MAX) };
        let before = self.most.saturating_sub(falls as usize);
        self.most = before.max(load.needed());
        let is_held = self.most > before || load.starting > 0;
        self.since = if is_held { now } else { self.since + NEED_FALLS.saturating_mul(falls) };
        let target = target.max(least).max(1);
        Want { target, needed: self.most.max(least).clamp(1, target) }
    }
}

/// How many of `all` workers each lane may have: first what each needs, then what each would like. If there are not enough, the lanes
/// that want most are cut down to the same number. Each lane gets one at least, even if that makes more than `all`.
pub fn share_out(wants: &[Want], all: usize) -> Vec<usize> {
    let needed: Vec<usize> = wants.iter().map(|want| want.needed).collect();
    let mut shares = level(&needed, all);
    let liked: Vec<usize> = wants.iter().zip(&shares).map(|(want, share)| want.target.saturating_sub(*share)).collect();
    let spare = level(&liked, all.saturating_sub(shares.iter().sum()));
    shares.iter_mut().zip(spare).for_each(|(share, spare)| *share = (*share + spare).max(1));
    shares
}

/// Cuts all numbers down to a height at which their sum is `all`, or less.
fn level(heights: &[usize], all: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..heights.len()).collect();
    order.sort_by_key(|number| heights[*number]);
    let (mut levelled, mut left) = (vec![0; heights.len()], all);
    for (done, number) in order.into_iter().enumerate() {
        levelled[number] = heights[number].min(left / (heights.len() - done));
        left -= levelled[number];
    }
    levelled
}

/// As many as are busy, and a few more.
fn with_spare(busy: usize) -> usize {
    busy + busy / 4 + 1
}

/// How many requests a lane has to have had before its isolation is judged.
const MIN_REQUESTS: u64 = 200;

/// Whether threads that requests leave running have ended so many workers (by more than one request in twenty) that a process for
/// each request is cheaper.
pub fn is_fork_better(ended_by_threads: u64, requests: u64) -> bool {
    requests >= MIN_REQUESTS && ended_by_threads > requests / 20
}

/// How a server that was asked to stop is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stopping {
    /// It was not asked.
    No,
    /// It serves on, and says that it is about to stop.
    Leaving,
    /// The front finishes what it has.
    Draining,
    /// What still runs is killed.
    Now,
}

impl Stopping {
    /// What the status shows of a server that has started.
    pub fn shown(self) -> ServerState {
        match self {
            Stopping::No => ServerState::Serving,
            Stopping::Leaving => ServerState::Leaving,
            Stopping::Draining | Stopping::Now => ServerState::Draining,
        }
    }

    /// The next stage after another request to stop, or after the deadline.
    pub fn further(self) -> Stopping {
        match self {
            Stopping::No | Stopping::Leaving => Stopping::Draining,
            Stopping::Draining | Stopping::Now => Stopping::Now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_to_a_limit_and_end_with_health() {
        let mut back_off = BackOff::default();
        let delays: Vec<_> = (0..10).map(|_| back_off.died(Duration::from_millis(5), false).as_millis()).collect();
        assert_eq!(delays, [100, 200, 400, 800, 1600, 3200, 6400, 12800, 25000, 25000]);
        assert_eq!(back_off.died(HEALTHY_AFTER, false), Duration::ZERO);
        assert_eq!(back_off.died(Duration::ZERO, false), FIRST_DELAY);
        assert_eq!(back_off.died(Duration::ZERO, true), Duration::ZERO);
        back_off.died(Duration::ZERO, false);
        back_off.works();
        assert_eq!(back_off.died(Duration::ZERO, false), FIRST_DELAY);
    }

    #[test]
    fn empty_slots_are_filled_and_leaving_ones_left_alone() {
        let slots = [Slot::Live(5), Slot::Leaving, Slot::Empty, Slot::Asked, Slot::Empty];
        assert_eq!(slots_to_fill(&slots, 3), [2]);
        assert_eq!(slots_to_fill(&slots, 9), [2, 4]);
        assert_eq!(slots_to_fill(&slots, 1), Vec::<usize>::new());
    }

    #[test]
    fn names_of_scripts_are_checked() {
        for good in ["/index.php", "/a b/ü.php"] {
            assert_eq!(script_name(good.as_bytes()), Ok(good));
        }
        let [longest, long] = [5, 4].map(|other| format!("/{}.php", "x".repeat(MAX_NAME - other)));
        assert_eq!(script_name(longest.as_bytes()), Ok(&*longest));
        for bad in ["", "index.php", "/../a.php", "/a\0.php", "/a\n.php", "/a.phtml", "/", &long] {
            assert!(script_name(bad.as_bytes()).is_err(), "{bad:?}");
        }
        assert!(script_name(b"/\xff.php").is_err());
    }

    #[test]
    fn a_classic_lane_beside_another_is_small() {
        assert_eq!(classic_workers(300, false, 2), 300);
        assert_eq!(classic_workers(300, true, 2), 8);
        assert_eq!(classic_workers(3, true, 2), 3);
    }

    #[test]
    fn workers_come_fast_and_go_slowly() {
        let load =
            |live, idle, waiting, quiet| Load { live, idle, starting: 0, waiting, quiet: Duration::from_secs(quiet) };
        // A burst: doubled each time, but not beyond the most.
        assert_eq!(next_target(load(2, 0, 50, 0), 2, 2, 32), 4);
        assert_eq!(next_target(load(4, 0, 46, 0), 4, 2, 32), 8);
        assert_eq!(next_target(load(30, 0, 9, 0), 30, 2, 32), 32);
        assert_eq!(next_target(load(0, 0, 1, 0), 1, 1, 4), 1);
        // Somebody is about to take what waits.
        assert_eq!(next_target(load(8, 1, 3, 0), 8, 2, 32), 8);
        // Somebody starts for each.
        assert_eq!(next_target(Load { starting: 3, ..load(8, 0, 3, 0) }, 8, 2, 32), 8);
        assert_eq!(next_target(Load { starting: 3, ..load(8, 0, 5, 0) }, 8, 2, 32), 10);
        // Quiet: one by one, down to what is busy and a little more.
        assert_eq!(next_target(load(32, 32, 0, 9), 32, 2, 32), 32);
        assert_eq!(next_target(load(32, 32, 0, 10), 32, 2, 32), 31);
        assert_eq!(next_target(load(11, 1, 0, 99), 11, 2, 32), 11);
        assert_eq!(next_target(load(2, 2, 0, 99), 2, 2, 32), 2);
        assert_eq!(next_target(load(6, 2, 0, 99), 6, 2, 32), 6);
        assert_eq!(next_target(Load { starting: 8, ..load(8, 0, 0, 99) }, 8, 2, 32), 8);
        // Another configuration; and workers beyond the target, with nothing that waits.
        assert_eq!(next_target(load(2, 2, 0, 0), 2, 4, 8), 4);
        assert_eq!(next_target(load(8, 0, 0, 0), 6, 2, 32), 6);
    }

    #[test]
    fn workers_are_shared_by_need() {
        let share = |wants: &[(usize, usize)], all| {
            let wants: Vec<Want> =
                wants.iter().map(|(target, needed)| Want { target: *target, needed: *needed }).collect();
            share_out(&wants, all)
        };
        // Enough for all.
        assert_eq!(share(&[(3, 1), (5, 5)], 8), [3, 5]);
        assert_eq!(share(&[(1, 1), (1, 1)], 400), [1, 1]);
        // Who is not busy gives way, and keeps what nobody else asks for.
        assert_eq!(share(&[(8, 3), (4, 4)], 8), [4, 4]);
        assert_eq!(share(&[(8, 1), (8, 8)], 8), [1, 7]);
        // All are busy: the same for each, but no more than it wants.
        assert_eq!(share(&[(8, 8), (8, 8)], 8), [4, 4]);
        assert_eq!(share(&[(2, 2), (9, 9), (7, 7)], 10), [2, 4, 4]);
        assert_eq!(share(&[(5, 5), (5, 5), (5, 5)], 8), [2, 3, 3]);
        // Fewer than there are lanes.
        assert_eq!(share(&[(4, 4), (4, 1), (4, 4)], 2), [1, 1, 1]);
        assert_eq!(share(&[], 4), Vec::<usize>::new());
        for all in 3..40 {
            let shares = share(&[(7, 2), (30, 30), (12, 5)], all);
            assert!(shares.iter().sum::<usize>() <= all && shares.iter().all(|share| *share > 0), "{all}: {shares:?}");
        }
    }

    #[test]
    fn a_lane_s_need_grows_at_once_and_falls_slowly() {
        let load = |live, idle, waiting| Load { live, idle, starting: 0, waiting, quiet: Duration::ZERO };
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let mut need = Need::new(began);
        let mut needed = |load, ms| need.want(load, 1, 8, at(ms)).needed;
        assert_eq!(needed(load(0, 0, 0), 0), 1);
        assert_eq!(needed(load(2, 0, 3), 0), 5);
        assert_eq!(needed(load(8, 0, 90), 10), 8);
        assert_eq!(needed(load(8, 4, 0), 20), 8);
        let mut need = Need::new(began);
        let mut needed = |load, ms| need.want(load, 1, 8, at(ms)).needed;
        assert_eq!(needed(load(5, 0, 0), 0), 7);
        // However often it is asked.
        let falling: Vec<usize> = (1..=40).map(|turn| needed(load(8, 8, 0), 20 * turn)).collect();
        assert_eq!((falling[0], falling[4], falling[9], falling[39]), (7, 6, 5, 1));
        assert_eq!(needed(load(8, 8, 0), 60_000), 1);
        // Not while somebody boots for it, and not at once thereafter.
        let mut need = Need::new(began);
        let mut needed = |load, ms| need.want(load, 1, 8, at(ms)).needed;
        assert_eq!(needed(load(5, 0, 0), 0), 7);
        assert_eq!(needed(Load { starting: 2, ..load(7, 5, 0) }, 900), 7);
        assert_eq!((needed(load(7, 7, 0), 950), needed(load(7, 7, 0), 1150)), (7, 5));
        // The time to fall begins with the rise.
        assert_eq!((needed(load(5, 0, 0), 1290), needed(load(8, 8, 0), 1350)), (7, 7));
        // What is always there is not given away.
        assert_eq!(Need::new(began).want(load(8, 8, 0), 3, 1, began), Want { target: 3, needed: 3 });
        // Who boots has no work yet.
        let booting = Load { starting: 3, ..load(4, 1, 0) };
        assert_eq!(Need::new(began).want(booting, 1, 9, began), Want { target: 9, needed: 1 });
    }

    #[test]
    fn threads_in_one_of_twenty_requests_are_too_many() {
        assert!(!is_fork_better(199, 199));
        assert!(!is_fork_better(10, 200));
        assert!(is_fork_better(11, 200));
        assert!(!is_fork_better(11, 1_000_000));
    }

    #[test]
    fn many_crashes_or_two_stuck_workers_are_suspect() {
        let seconds = Duration::from_secs;
        let mut few = Suspicion::default();
        assert!((0..60).all(|number| !few.crashed(seconds(4 * number))));
        let mut many = Suspicion::default();
        assert_eq!((0..20).filter(|number| many.crashed(seconds(*number))).count(), 1);
        let mut unhealthy = Suspicion::default();
        assert_eq!((0..16).filter(|number| unhealthy.unhealthy(seconds(*number))).count(), 4);
        assert!((0..60).all(|number| !unhealthy.unhealthy(seconds(100 + 11 * number))));
        let mut stuck = Suspicion::default();
        assert!(!stuck.stuck(seconds(1)) && !stuck.stuck(seconds(12)) && stuck.stuck(seconds(15)));
        assert!((0..19).all(|_| !few.crashed(seconds(1000))) && !few.crashed(seconds(1060)));
        assert!((0..3).all(|_| !unhealthy.unhealthy(seconds(1000))) && !unhealthy.unhealthy(seconds(1030)));
        assert!(!stuck.stuck(seconds(1000)) && !stuck.stuck(seconds(1010)));
    }

    #[test]
    fn a_stop_is_shown_as_a_drain() {
        let words = [Stopping::No, Stopping::Draining, Stopping::Now].map(|stopping| stopping.shown().word());
        assert_eq!(words, ["serving", "draining", "draining"]);
    }
}
