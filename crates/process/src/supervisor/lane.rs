//! A lane of a generation.

use std::time::{Duration, Instant};

use wire::atomics::Ordering;
use wire::control::{Bodies, Isolation};
use wire::key::Key;
use wire::layout::Activity;

use super::comparison::Comparison;
use super::mailbox::Mailbox;
use super::restart::Restart;
use super::service::{Application, Entry};
use super::template::Template;
use super::worker_target::WorkerTarget;
use crate::plan::Slot;

/// The lane of all requests that have no lane of their own.
pub(super) const CLASSIC: usize = 0;

/// The limit by which the front refuses bodies: a body may be as long as either of the two settings allows.
pub(super) fn largest_limit(one: Bodies, other: Bodies) -> u64 {
    if one.limit == 0 || other.limit == 0 { 0 } else { one.limit.max(other.limit) }
}

/// How many requests a lane has had since lanes were last compared.
#[derive(Default)]
pub(super) struct LaneUse {
    /// What [`Lane::begun`] was when it was last looked at. It begins anew with each front.
    begun: u64,
    pub(super) times: u64,
}

/// One lane, with its template if it has one.
pub(super) struct Lane {
    pub(super) bodies: Bodies,
    /// The [`Key`] of the requests that it takes, as text. The classic lane has none.
    pub(super) entry: Option<String>,
    pub(super) template: Option<Template>,
    pub(super) isolation: Isolation,
    /// Of a process for each request with classic mode, where that is all that is possible.
    pub(super) comparison: Option<Comparison>,
    /// Its generation is not ready before this lane is, unless it has failed.
    pub(super) is_awaited: bool,
    /// The server does not start without it.
    pub(super) is_required: bool,
    /// The last boot failed.
    pub(super) has_failed: bool,
    /// A file that the boot has loaded has changed since.
    pub(super) is_outdated: bool,
    pub(super) mailbox: Option<Mailbox>,
    /// Workers of earlier fronts that have not ended yet, and since when.
    pub(super) retired: Vec<(i32, Instant)>,
    /// When its template, or workers, may start again.
    pub(super) restart: Restart,
    pub(super) served: bool,
    pub(super) target: WorkerTarget,
    pub(super) used: LaneUse,
}

impl Lane {
    pub(super) fn classic(now: Instant) -> Lane {
        Lane {
            bodies: Bodies::default(),
            entry: None,
            template: None,
            isolation: Isolation::Auto,
            comparison: None,
            is_awaited: true,
            is_required: false,
            has_failed: false,
            is_outdated: false,
            mailbox: None,
            retired: Vec::new(),
            restart: Restart::new(now),
            served: false,
            target: WorkerTarget::new(now),
            used: LaneUse::default(),
        }
    }

    pub(super) fn of(entry: &Entry, now: Instant) -> Lane {
        Lane {
            entry: Some(entry.script.clone()),
            is_required: entry.is_required,
            isolation: if entry.is_worker_mode { Isolation::WorkerMode } else { Isolation::Auto },
            ..Lane::classic(now)
        }
    }

    /// Whether classic mode has turned out to be cheaper for its requests.
    pub(super) fn prefers_classic(&self) -> bool {
        self.comparison == Some(Comparison::Over { is_classic: true })
    }

    /// Which requests it takes. The classic lane has no key.
    pub(super) fn key(&self) -> Option<Key<'_>> {
        Key::parse(self.entry.as_deref()?)
    }

    /// Whether its template boots for that key: the key is its own, or names its script and the first origin. A lane without an
    /// origin boots with the first origin, and its snapshot may turn out to be for that origin alone.
    pub(super) fn boots(&self, wanted: &str, application: &Application) -> bool {
        let own = self.entry.as_deref();
        let is_first = |key: Key<'_>| Some(key.script) == own && key.origin == Some(application.first_origin());
        own == Some(wanted) || Key::parse(wanted).is_some_and(is_first)
    }

    /// Whether the front sends it requests and workers take them, all that it is to begin with: a lane whose workers cannot be forked is not
    /// served. Each worker of a worker script boots by itself first.
    pub(super) fn is_served(&self) -> bool {
        let Some(mailbox) = self.mailbox.as_ref().filter(|mailbox| mailbox.is_known) else { return false };
        let is_worker_mode = self.isolation == Isolation::WorkerMode;
        let there = mailbox.live_workers().filter(|(slot, _)| !is_worker_mode || mailbox.has_begun(*slot)).count();
        there > 0 && mailbox.live() == there
    }

    /// Whether a worker of its forker has come to wait for requests.
    pub(super) fn has_served(&self) -> bool {
        let has_begun = |mailbox: &Mailbox| (0..mailbox.slots.len()).any(|slot| mailbox.has_begun(slot));
        self.served || self.mailbox.as_ref().is_some_and(has_begun)
    }

    /// Workers of a worker script that have not reached its loop within that time. `since` tells how long ago a worker's clock
    /// showed something.
    pub(super) fn hung_workers(&self, limit: Duration, since: impl Fn(u64) -> Option<Duration>) -> Vec<i32> {
        let Some(mailbox) = &self.mailbox else { return Vec::new() };
        let took = |slot: usize| {
            let line = mailbox.slab.slot(slot)?;
            match line.activity.load(Ordering::Relaxed) {
                activity if activity == Activity::Empty as u32 => Some(mailbox.age(slot)),
                activity if activity == Activity::Booting as u32 => since(line.since.load(Ordering::Relaxed)),
                _ => None,
            }
        };
        let hung = mailbox.live_workers().filter(|(slot, _)| took(*slot).is_some_and(|took| took > limit));
        hung.map(|(_, pid)| pid).collect()
    }

    /// Whether it has workers. If its forker is dead, these are not reaped yet.
    pub(super) fn has_workers(&self) -> bool {
        self.mailbox.iter().flat_map(|mailbox| &mailbox.slots).any(|slot| matches!(slot, Slot::Live(_) | Slot::Asked))
    }

    /// How many entries workers have taken from its queue: one for each request.
    fn begun(&self) -> Option<u64> {
        self.mailbox.as_ref().map(|mailbox| mailbox.slab.queue().head.load(Ordering::Relaxed))
    }

    /// Counts the requests that it has had.
    pub(super) fn note_use(&mut self) {
        let Some(begun) = self.begun() else { return };
        self.used.times += begun.checked_sub(self.used.begun).unwrap_or(begun);
        self.used.begun = begun;
    }
}
