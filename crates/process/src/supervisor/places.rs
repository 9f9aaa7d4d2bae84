//! Places of lanes. An application has few; a script or a host that finds none left gets that of the lane that has been asked for
//! least recently, if that is long enough ago: by a new generation, which is made without the one and with the other.

use std::time::{Duration, Instant};

use wire::atomics::Ordering;

use super::Supervisor;
use super::generation::{CLASSIC, Generation, Lane};
use super::service::Entry;
use crate::plan::Stopping;

/// How often lanes are looked at.
const TURN: Duration = Duration::from_secs(1);
/// Keys that wait for a place, at most.
const MAX_HOMELESS: usize = 8;

/// What a lane was last seen to have begun, and when that has changed.
#[derive(Clone, Copy)]
pub(super) struct Use {
    begun: u64,
    at: Instant,
}

impl Use {
    pub(super) fn new(now: Instant) -> Use {
        Use { begun: 0, at: now }
    }
}

/// Keys that found no place, and a lane that is to give its own.
#[derive(Default)]
pub(super) struct Places {
    homeless: Vec<Entry>,
    /// The lane that the next generation is made without, as long as nobody asks for it: its key and use.
    ceding: Option<(String, u64)>,
    next: Option<Instant>,
}

impl Places {
    /// Whether the next generation is to be made without that lane.
    pub(super) fn cedes(&self, lane: &Lane) -> bool {
        let is_it = |(key, begun): &(String, u64)| lane.entry.as_ref() == Some(key) && lane.begun() == Some(*begun);
        self.ceding.as_ref().is_some_and(is_it)
    }

    /// What the next generation gets with the place.
    pub(super) fn homeless(&self) -> &[Entry] {
        &self.homeless
    }
}

impl Lane {
    /// Entries that workers have taken from its queue: one for each request.
    fn begun(&self) -> Option<u64> {
        self.mailbox.as_ref().map(|mailbox| mailbox.slab.queue().head.load(Ordering::Relaxed))
    }
}

impl Generation {
    /// A key for which there is no place.
    pub(super) fn has_no_place_for(&mut self, key: &str, is_loop: bool) {
        let places = &mut self.places;
        if places.homeless.len() < MAX_HOMELESS && !places.homeless.iter().any(|one| one.script == key) {
            places.homeless.push(Entry { script: key.to_owned(), is_required: false, is_loop });
        }
    }

    fn note_use(&mut self, now: Instant) {
        for lane in &mut self.lanes {
            if let Some(begun) = lane.begun().filter(|begun| *begun != lane.used.begun) {
                lane.used = Use { begun, at: now };
            }
        }
    }

    /// The lane that has been asked for least recently, of those that the configuration does not want.
    fn least_used(&self) -> Option<&Lane> {
        let wanted: Vec<Lane> = self.application.entries.iter().map(|entry| Lane::of(entry, Instant::now())).collect();
        let is_wanted = |key: &String| wanted.iter().any(|lane| lane.boots(key, &self.application));
        let is_found = |lane: &&Lane| !lane.entry.as_ref().is_some_and(is_wanted);
        self.lanes[CLASSIC + 1..].iter().filter(is_found).min_by_key(|lane| lane.used.at)
    }
}

impl Supervisor {
    /// Asks for a new generation if a lane that nobody asks for is in the way of another.
    pub(super) fn give_places(&mut self) {
        let now = Instant::now();
        if !self.announced || self.stopping != Stopping::No || self.change.is_some() {
            return;
        }
        for number in self.current.clone() {
            let generation = &mut self.generations[number];
            if generation.places.next.is_some_and(|next| now < next) {
                continue;
            }
            generation.places.next = Some(now + TURN);
            generation.note_use(now);
            // One that was refused, or has been joined by others' requests, is judged anew.
            if generation.places.homeless.is_empty() || self.wish.is_some() {
                continue;
            }
            let patience = generation.application.lane_timeout;
            let unused = generation.least_used().filter(|lane| now - lane.used.at >= patience);
            let Some((key, begun)) = unused.and_then(|lane| Some((lane.entry.clone()?, lane.used.begun))) else {
                continue;
            };
            let why = format!(
                "{key} had no request for {patience:?}; its place goes to {}",
                generation.places.homeless[0].script
            );
            generation.places.ceding = Some((key, begun));
            self.wish_for(number, &why);
        }
    }
}
