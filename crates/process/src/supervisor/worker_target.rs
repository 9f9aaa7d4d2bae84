//! How many workers a lane is to have, and what they do now.

use std::time::{Duration, Instant};

use wire::atomics::Ordering;
use wire::layout::Activity;

use super::mailbox::Mailbox;
use crate::plan::{Load, Need, Slot, next_target};

/// How often a lane in which requests wait is looked at.
const BUSY_TURN: Duration = Duration::from_millis(10);
/// How often another is.
const IDLE_TURN: Duration = Duration::from_secs(1);
/// For so long a lane is looked at as if requests waited after they did: those that took them may be long at it.
const ALERT: Duration = Duration::from_millis(50);

/// How many workers a lane is to have.
pub(super) struct WorkerTarget {
    /// By its own load; 0: not judged yet.
    pub(super) workers: usize,
    pub(super) need: Need,
    /// Of those that it shares with other lanes.
    pub(super) share: usize,
    /// Since when nothing has waited.
    quiet: Instant,
    /// Until when it is looked at often.
    alert: Instant,
    /// When it is judged again.
    pub(super) next: Instant,
}

impl WorkerTarget {
    pub(super) fn new(now: Instant) -> WorkerTarget {
        WorkerTarget { workers: 0, need: Need::new(now), share: 0, quiet: now, alert: now, next: now }
    }

    /// As many as the same lane had in the generation before.
    pub(super) fn inherit(&mut self, old: &WorkerTarget) {
        self.workers = old.workers;
    }

    /// Requests wait: it is judged at once, and often for a while.
    pub(super) fn mark_busy(&mut self, now: Instant) {
        (self.next, self.alert) = (now, now + ALERT);
    }

    /// Follows the load.
    pub(super) fn judge(&mut self, mailbox: &Mailbox, least: usize, most: usize, now: Instant) {
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

pub(super) fn load(mailbox: &Mailbox, quiet: Duration) -> Load {
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

/// Lets a lane keep so many workers that are ready: as many as are too many end, whoever is idle or gets done first. What asks
/// for the places of those that boot meanwhile waits until they are there.
pub(super) fn dismiss_surplus(mailbox: &Mailbox, count: usize) {
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
