//! How many workers a lane is to have, and what they do now.

use std::time::{Duration, Instant};

use ipc::atomics::Ordering;
use ipc::layout::Activity;

use crate::lanes::mailbox::Mailbox;
use crate::plan::{Load, Need, Slot, next_target};

/// How often a lane is looked at while requests wait there.
const BUSY_TURN: Duration = Duration::from_millis(10);
/// How often any other lane is looked at.
const IDLE_TURN: Duration = Duration::from_secs(1);
/// For so long after requests have waited, a lane is still looked at often: the workers that took them may need long.
const ALERT: Duration = Duration::from_millis(50);

/// How many workers a lane is to have.
pub(crate) struct WorkerTarget {
    /// By its own load. 0: not decided yet.
    pub(crate) workers: usize,
    pub(crate) need: Need,
    /// Its share of the workers of a pool.
    pub(crate) share: usize,
    /// Since when nothing has waited.
    quiet: Instant,
    /// Until when it is looked at often.
    alert: Instant,
    /// When the number is decided again.
    pub(crate) next: Instant,
}

impl WorkerTarget {
    pub(crate) fn new(now: Instant) -> WorkerTarget {
        WorkerTarget { workers: 0, need: Need::new(now), share: 0, quiet: now, alert: now, next: now }
    }

    /// Begins with as many as the same lane had in the generation before.
    pub(crate) fn inherit(&mut self, old: &WorkerTarget) {
        self.workers = old.workers;
    }

    /// Requests wait: the number is decided at once, and often for a while.
    pub(crate) fn mark_busy(&mut self, now: Instant) {
        (self.next, self.alert) = (now, now + ALERT);
    }

    /// Decides the number by the load.
    pub(crate) fn judge(&mut self, mailbox: &Mailbox, least: usize, most: usize, now: Instant) {
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
    match (mailbox.slots.get(number), activity) {
        (Some(Slot::Asked), _) => State::Starting,
        (_, activity) if activity == Activity::Empty as u32 || activity == Activity::Booting as u32 => State::Starting,
        (_, activity) if activity == Activity::Idle as u32 => State::Idle,
        _ => State::Busy,
    }
}

pub(crate) fn load(mailbox: &Mailbox, quiet: Duration) -> Load {
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

/// Lets a lane keep so many ready workers. The surplus ends: idle workers, or those that are done first. Workers that boot are not
/// counted, so they end, if they are too many, when they are ready.
pub(crate) fn dismiss_surplus(mailbox: &Mailbox, count: usize) {
    // Workers only count down. If a worker keeps changing the number, the lane is looked at again later.
    for _ in 0..8 {
        let before = mailbox.slab.surplus().load(Ordering::SeqCst);
        // From above: workers in low slots are woken first, so their caches are warm.
        let staying = (0..mailbox.slots.len()).rev().filter(|number| mailbox.stays(*number));
        let states: Vec<(usize, State)> = staying.map(|number| (number, state(mailbox, number))).collect();
        let ready = states.iter().filter(|(_, state)| *state != State::Starting).count();
        let idle = states.iter().filter(|(_, state)| *state == State::Idle).map(|(number, _)| *number);
        let surplus = u32::try_from(ready.saturating_sub(count)).unwrap_or(u32::MAX);
        if before == 0 && surplus == 0 || ipc::front::dismiss(&mailbox.slab, before, surplus, idle) {
            return;
        }
    }
}
