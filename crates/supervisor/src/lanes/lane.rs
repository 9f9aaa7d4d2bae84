//! A lane of a generation.

use std::time::{Duration, Instant};

use ipc::atomics::Ordering;
use ipc::control::{Bodies, Isolation};
use ipc::key::Key;
use ipc::layout::Activity;

use crate::lanes::comparison::Comparison;
use crate::lanes::mailbox::Mailbox;
use crate::lanes::template::Template;
use crate::lanes::worker_target::WorkerTarget;
use crate::peers::restart::Restart;
use crate::plan::Slot;
use crate::settings::service::{Application, Entry};

/// The lane of all requests that have no lane of their own.
pub(crate) const CLASSIC: usize = 0;

/// The limit by which the front refuses bodies: a body may be as long as either of the two settings allows.
pub(crate) fn largest_limit(one: Bodies, other: Bodies) -> u64 {
    if one.limit == 0 || other.limit == 0 { 0 } else { one.limit.max(other.limit) }
}

/// How many requests a lane has had since lanes were last compared.
#[derive(Default)]
pub(crate) struct LaneUse {
    /// What [`Lane::begun`] was when it was last looked at. It begins anew with each front.
    begun: u64,
    pub(crate) times: u64,
}

/// One lane, with its template if it has one.
pub(crate) struct Lane {
    pub(crate) bodies: Bodies,
    /// The [`Key`] of the requests that it takes, as text. The classic lane has none.
    pub(crate) entry: Option<String>,
    pub(crate) template: Option<Template>,
    pub(crate) isolation: Isolation,
    /// Of a process for each request with classic mode, where that is all that is possible.
    pub(crate) comparison: Option<Comparison>,
    /// Its generation is not ready before this lane is, unless it has failed.
    pub(crate) is_awaited: bool,
    /// The server does not start without it.
    pub(crate) is_required: bool,
    /// The last boot failed.
    pub(crate) has_failed: bool,
    /// A file that the boot has loaded has changed since.
    pub(crate) is_outdated: bool,
    pub(crate) mailbox: Option<Mailbox>,
    /// Workers of earlier fronts that have not ended yet, and since when.
    pub(crate) retired: Vec<(i32, Instant)>,
    /// When its template, or workers, may start again.
    pub(crate) restart: Restart,
    pub(crate) served: bool,
    pub(crate) target: WorkerTarget,
    pub(crate) used: LaneUse,
}

impl Lane {
    pub(crate) fn classic(now: Instant) -> Lane {
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

    pub(crate) fn of(entry: &Entry, now: Instant) -> Lane {
        Lane {
            entry: Some(entry.script.clone()),
            is_required: entry.is_required,
            isolation: if entry.is_worker_mode { Isolation::WorkerMode } else { Isolation::Auto },
            ..Lane::classic(now)
        }
    }

    /// Whether classic mode has turned out to be cheaper for its requests.
    pub(crate) fn prefers_classic(&self) -> bool {
        self.comparison == Some(Comparison::Over { is_classic: true })
    }

    /// Which requests it takes. The classic lane has no key.
    pub(crate) fn key(&self) -> Option<Key<'_>> {
        Key::parse(self.entry.as_deref()?)
    }

    /// Whether its template boots for that key: the key is its own, or names its script and the first origin. A lane without an
    /// origin boots with the first origin, and its snapshot may turn out to be for that origin alone.
    pub(crate) fn boots(&self, wanted: &str, application: &Application) -> bool {
        let own = self.entry.as_deref();
        let is_first = |key: Key<'_>| Some(key.script) == own && key.origin == Some(application.first_origin());
        own == Some(wanted) || Key::parse(wanted).is_some_and(is_first)
    }

    /// Whether the front sends it requests and workers take them, all that it is to begin with: a lane whose workers cannot be forked is not
    /// served. Each worker of a worker script boots by itself first.
    pub(crate) fn is_served(&self) -> bool {
        let Some(mailbox) = self.mailbox.as_ref().filter(|mailbox| mailbox.is_known) else { return false };
        let is_worker_mode = self.isolation == Isolation::WorkerMode;
        let there = mailbox.live_workers().filter(|(slot, _)| !is_worker_mode || mailbox.has_begun(*slot)).count();
        there > 0 && mailbox.live() == there
    }

    /// Whether a worker of its forker has come to wait for requests.
    pub(crate) fn has_served(&self) -> bool {
        let has_begun = |mailbox: &Mailbox| (0..mailbox.slots.len()).any(|slot| mailbox.has_begun(slot));
        self.served || self.mailbox.as_ref().is_some_and(has_begun)
    }

    /// Workers of a worker script that have not reached its loop within that time. `since` tells how long ago a worker's clock
    /// showed something.
    pub(crate) fn hung_workers(&self, limit: Duration, since: impl Fn(u64) -> Option<Duration>) -> Vec<i32> {
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
    pub(crate) fn has_workers(&self) -> bool {
        self.mailbox.iter().flat_map(|mailbox| &mailbox.slots).any(|slot| matches!(slot, Slot::Live(_) | Slot::Asked))
    }

    /// How many entries workers have taken from its queue: one for each request.
    fn begun(&self) -> Option<u64> {
        self.mailbox.as_ref().map(|mailbox| mailbox.slab.queue().head.load(Ordering::Relaxed))
    }

    /// Counts the requests that it has had.
    pub(crate) fn note_use(&mut self) {
        let Some(begun) = self.begun() else { return };
        self.used.times += begun.checked_sub(self.used.begun).unwrap_or(begun);
        self.used.begun = begun;
    }
}
