//! Evictions of lanes. A generation has few lanes. A key that finds none left waits, and gets the lane that has had no request for
//! longest, if that is long enough: by a new generation, which is made without the evicted lane and with the waiting keys.

use std::time::{Duration, Instant};

use super::lane::{CLASSIC, Lane, LaneUse};
use super::service::{Application, Entry};

/// How often lanes are looked at.
const TURN: Duration = Duration::from_secs(1);
/// Keys that wait for a lane, at most.
const MAX_WAITING: usize = 8;

/// The keys of a generation that wait for a lane, and the lane that is to be evicted.
#[derive(Default)]
pub(super) struct LaneEviction {
    waiting: Vec<Entry>,
    /// The next generation is made without this lane, unless a request has come for it since.
    evicted: Option<Evicted>,
    next: Option<Instant>,
}

struct Evicted {
    key: String,
    /// What [`Lane::begun`] was then.
    begun: u64,
}

impl LaneEviction {
    /// Whether the next generation is to be made without that lane.
    pub(super) fn evicts(&self, lane: &Lane) -> bool {
        let is_it = |one: &Evicted| lane.entry.as_ref() == Some(&one.key) && lane.begun() == Some(one.begun);
        self.evicted.as_ref().is_some_and(is_it)
    }

    /// Keys that the next generation gets lanes for.
    pub(super) fn waiting(&self) -> &[Entry] {
        &self.waiting
    }

    /// A key for which there is no lane.
    pub(super) fn wait(&mut self, key: &str, is_worker_mode: bool) {
        if self.waiting.len() < MAX_WAITING && !self.waiting.iter().any(|one| one.script == key) {
            self.waiting.push(Entry { script: key.to_owned(), is_required: false, is_worker_mode });
        }
    }

    /// Notes which lanes have had requests and, if `may_evict`, chooses one that has had none for `lane_timeout` while a key
    /// waits. Returns why a new generation is needed then.
    pub(super) fn look(
        &mut self,
        lanes: &mut [Lane],
        application: &Application,
        may_evict: bool,
        now: Instant,
    ) -> Option<String> {
        if self.next.is_some_and(|next| now < next) {
            return None;
        }
        self.next = Some(now + TURN);
        for lane in lanes.iter_mut() {
            if let Some(begun) = lane.begun().filter(|begun| *begun != lane.used.begun) {
                lane.used = LaneUse { begun, at: now };
            }
        }
        let gets = &self.waiting.first().filter(|_| may_evict)?.script;
        let patience = application.lane_timeout;
        let unused = least_used(lanes, application, now).filter(|lane| now - lane.used.at >= patience)?;
        let (key, begun) = (unused.entry.clone()?, unused.used.begun);
        let why = format!("{key} had no request for {patience:?}; its place goes to {gets}");
        self.evicted = Some(Evicted { key, begun });
        Some(why)
    }
}

/// The lane whose last request is longest ago, of those that the configuration does not want.
fn least_used<'a>(lanes: &'a [Lane], application: &Application, now: Instant) -> Option<&'a Lane> {
    let wanted: Vec<Lane> = application.entries.iter().map(|entry| Lane::of(entry, now)).collect();
    let is_wanted = |key: &String| wanted.iter().any(|lane| lane.boots(key, application));
    let is_found = |lane: &&Lane| !lane.entry.as_ref().is_some_and(is_wanted);
    lanes.get(CLASSIC + 1..)?.iter().filter(is_found).min_by_key(|lane| lane.used.at)
}
