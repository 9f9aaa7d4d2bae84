//! The stored responses of one application. Their number of bytes is limited; what is asked for seldom goes first, so that a visitor who asks
//! for everything once takes nothing from the others (S3-FIFO).

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use cache::key::Key;
use cache::purge::{Purge, What};
use cache::status::{Did, Result as Results, Why};
use cache::variant::{self, Nominated};
use http::header::HeaderMap;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};

use super::asking::Place;
use super::entry::{Entry, OVERHEAD};
use super::flight::{Flight, Follower};
use super::in_flight::Held;
use super::known::Known;
use super::purges::{Purged, Purges};
use super::teller::Teller;
use compression::Coding;

/// Variants of one URL, at most. More make the oldest go.
const MOST_VARIANTS: usize = 32;
/// The part of the budget for what is known of URLs whose responses are not stored.
const OF_KNOWN: u64 = 32;

/// What is stored for a key.
#[derive(Clone)]
enum Stored {
    /// A response.
    Response(Arc<Entry>),
    /// The compressed body of a response.
    Coded(Bytes),
    /// The URL has variants, which have keys of their own.
    Variants(Arc<Variants>),
}

struct Variants {
    /// Part of the variants' keys, so that they are lost with this.
    id: u64,
    nominated: Nominated,
    keys: Mutex<VecDeque<Key>>,
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<Key, Stored> for ByBytes {
    fn weight(&self, key: &Key, place: &Stored) -> u64 {
        let own = match place {
            Stored::Response(entry) => entry.bytes(),
            Stored::Coded(bytes) => OVERHEAD + bytes.len(),
            Stored::Variants(variants) => OVERHEAD + 64 * (variants.nominated.len() + MOST_VARIANTS),
        };
        (key.as_bytes().len() + own) as u64
    }
}

/// What is found for a request.
pub enum Found {
    /// A stored response for such a request; whether it may answer, its terms say.
    Entry(Arc<Entry>),
    /// The same, but a purge has made it stale.
    Old(Arc<Entry>),
    /// Nothing for this URL, of which nothing is known.
    Nothing,
    /// Nothing for this URL, but its last response said that it may be shared.
    Gone,
    /// Nothing for such a request.
    NoVariant,
    /// The last response to this URL could not be shared.
    Passed,
}

/// The stored responses of an application. Its locks are taken in the order `purges`, `flights`.
pub struct Responses {
    /// Bytes, at most.
    budget: AtomicU64,
    places: Cache<Key, Stored, ByBytes, RandomState>,
    /// What the last responses have said. None that could not be shared has a response in `places`, unless that is being stored at this moment.
    pub known: Known,
    flights: Mutex<HashMap<Key, Arc<Flight>>>,
    /// What was purged, or changed by an unsafe method.
    pub purges: Purges,
    held: Arc<AtomicU64>,
    ids: AtomicU64,
    /// Two, so that nobody can find two variants with one key.
    hashers: [RandomState; 2],
    /// Passes purges on.
    teller: Option<Teller>,
    /// What was done.
    pub counts: Counts,
}

/// What the cache has done since it began.
#[derive(Default)]
pub struct Counts {
    /// Requests, by result.
    pub results: [AtomicU64; Results::ALL.len()],
    /// Responses that were not stored or not sent, by reason.
    pub whys: [AtomicU64; Why::ALL.len()],
    /// Purges.
    pub purges: AtomicU64,
    /// Bodies of stored responses that were compressed.
    pub coded: AtomicU64,
}

impl Responses {
    /// With room for so many bytes. `object`: those of the largest response.
    pub fn new(budget: u64, object: u64) -> Responses {
        let most = budget - budget / OF_KNOWN;
        // The store is in parts that are locked by themselves. None may be too small for the largest response.
        let parts = (most / object.saturating_mul(8).max(1)).clamp(1, 64) as usize;
        let options = OptionsBuilder::new()
            .shards(1 << parts.ilog2())
            .estimated_items_capacity((budget / 4096).max(16) as usize)
            .weight_capacity(most)
            // Measured with the traces of the tests: what comes into fashion is kept sooner than by the defaults.
            .hot_allocation(0.9)
            .ghost_allocation(1.0)
            .build();
        let places = match options {
            Ok(options) => Cache::with_options(options, ByBytes, RandomState::new(), DefaultLifecycle::default()),
            // It says what is missing; nothing is.
            Err(_) => Cache::with(16, most, ByBytes, RandomState::new(), DefaultLifecycle::default()),
        };
        Responses {
            budget: AtomicU64::new(budget),
            places,
            known: Known::new(budget / OF_KNOWN),
            flights: Mutex::default(),
            purges: Purges::default(),
            held: Arc::default(),
            ids: AtomicU64::new(0),
            hashers: [RandomState::new(), RandomState::new()],
            teller: None,
            counts: Counts::default(),
        }
    }

    /// The same, with somebody who tells other nodes of purges.
    pub fn with_teller(self, teller: Teller) -> Responses {
        Responses { teller: Some(teller), ..self }
    }

    /// Whether there are other nodes.
    pub fn tells_others(&self, is_wanted: bool) {
        self.teller.iter().for_each(|teller| teller.wants(is_wanted));
    }

    /// Room for another number of bytes.
    pub fn resize(&self, budget: u64) {
        if self.budget.swap(budget, Ordering::Relaxed) != budget {
            self.places.set_capacity(budget - budget / OF_KNOWN);
            self.known.resize(budget / OF_KNOWN);
        }
    }

    /// What responses on their way hold beside the store. Half as much as the store may hold; beyond that they are not stored.
    pub fn held(&self) -> Held {
        Held::of(self.held.clone())
    }

    /// Whether responses on their way hold as much as they may.
    pub fn is_crowded(&self) -> bool {
        self.held.load(Ordering::Relaxed) > self.budget.load(Ordering::Relaxed) / 2
    }

    /// What is stored for a request with these headers. `is_led`: what responds is known, and counts.
    pub fn find(&self, place: &Place, headers: &HeaderMap, is_led: bool) -> Found {
        let url = &place.url;
        let stored = match self.places.get(url) {
            Some(Stored::Variants(variants)) => {
                let key = self.variant_key(&variants, url, headers);
                match self.places.get(&key) {
                    Some(Stored::Response(entry)) => Stored::Response(entry),
                    _ if self.known.why_not(&key).is_some() => return Found::Passed,
                    _ => return Found::NoVariant,
                }
            }
            Some(stored) => stored,
            None => {
                return match self.known.why_not(url) {
                    Some(_) => Found::Passed,
                    None if self.known.is_shared(url) => Found::Gone,
                    None => Found::Nothing,
                };
            }
        };
        match stored {
            // By other rules it is another response.
            Stored::Response(entry)
                if entry.place.led == place.led && (!is_led || entry.place.outcome == place.outcome) =>
            {
                match self.purges.of(&entry) {
                    Purged::No => Found::Entry(entry),
                    Purged::Softly => Found::Old(entry),
                    Purged::Gone => Found::Gone,
                }
            }
            _ => Found::Nothing,
        }
    }

    /// Stores a response, unless it was purged since its request began.
    pub fn store(&self, entry: Arc<Entry>) -> bool {
        // A purge waits until the response is stored, and then finds it.
        let still = self.purges.still();
        if still.of(&entry) != Purged::No {
            return false;
        }
        let url = entry.place.url.clone();
        self.known.share(&url);
        if entry.terms.nominated.is_empty() {
            self.forget_coded(&url, &entry);
            self.places.insert(url, Stored::Response(entry));
            return true;
        }
        let variants = self.variants(&url, &entry.terms.nominated);
        let key = self.variant_key(&variants, &url, &entry.asked);
        let mut keys = lock(&variants.keys);
        if !keys.contains(&key) {
            keys.push_back(key.clone());
        }
        if keys.len() > MOST_VARIANTS {
            if let Some(oldest) = keys.pop_front() {
                self.places.remove(&oldest);
            }
        }
        self.known.forget(&key);
        self.forget_coded(&key, &entry);
        self.places.insert(key, Stored::Response(entry));
        true
    }

    /// The compressed body of a stored response, if there is one.
    pub fn coded(&self, entry: &Entry, coding: Coding) -> Option<Bytes> {
        match self.places.get(&coded_key(entry, coding)) {
            Some(Stored::Coded(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// Keeps the compressed body of a stored response. `false`: there is no room for it.
    pub fn store_coded(&self, entry: &Entry, coding: Coding, bytes: Bytes) -> bool {
        self.counts.coded.fetch_add(1, Ordering::Relaxed);
        let key = coded_key(entry, coding);
        self.places.insert(key.clone(), Stored::Coded(bytes));
        self.places.peek(&key).is_some()
    }

    /// Another response takes the place of the one with this key.
    fn forget_coded(&self, key: &Key, entry: &Entry) {
        let Some(Stored::Response(old)) = self.places.peek(key) else { return };
        if old.number != entry.number {
            for coding in Coding::ALL {
                self.places.remove(&coded_key(&old, coding));
            }
        }
    }

    /// The variants of a URL that these headers choose.
    fn variants(&self, url: &Key, nominated: &Nominated) -> Arc<Variants> {
        match self.places.peek(url) {
            Some(Stored::Variants(known)) if known.nominated == *nominated => known,
            _ => {
                let id = self.ids.fetch_add(1, Ordering::Relaxed);
                let new = Arc::new(Variants { id, nominated: nominated.clone(), keys: Mutex::default() });
                self.places.insert(url.clone(), Stored::Variants(new.clone()));
                new
            }
        }
    }

    /// Learns of the headers that choose a response before the response is there, so that requests for others begin flights of their own.
    pub fn learn(&self, url: &Key, nominated: &Nominated) {
        if !nominated.is_empty() {
            self.variants(url, nominated);
        }
    }

    /// A stored response must not be used again: its URL has another one now, which is not stored.
    pub fn forget(&self, entry: &Arc<Entry>) {
        let is_it = |stored: &Stored| matches!(stored, Stored::Response(one) if Arc::ptr_eq(one, entry));
        let url = &entry.place.url;
        let key = match self.places.peek(url) {
            Some(Stored::Variants(variants)) => self.variant_key(&variants, url, &entry.asked),
            _ => url.clone(),
        };
        self.places.remove_if(&key, is_it);
    }

    fn variant_key(&self, variants: &Variants, url: &Key, headers: &HeaderMap) -> Key {
        let chosen = variant::key(&variants.nominated, headers);
        let mut key = Key::new();
        key.add(&variants.id.to_le_bytes());
        for hasher in &self.hashers {
            key.add(&hasher.hash_one((url, &chosen)).to_le_bytes());
        }
        key
    }

    /// Remembers that the response to a request with these headers cannot be shared, unless one is stored that may answer others.
    pub fn pass(&self, place: &Place, headers: &HeaderMap, why: Why) {
        let url = &place.url;
        let key = match self.places.peek(url) {
            Some(Stored::Variants(variants)) => self.variant_key(&variants, url, headers),
            _ => url.clone(),
        };
        if let Some(Stored::Response(entry)) = self.places.peek(&key) {
            let is_of_place = entry.place.led == place.led && entry.place.outcome == place.outcome;
            if is_of_place && self.purges.of(&entry) != Purged::Gone {
                return;
            }
            self.places.remove(&key);
        }
        self.known.pass(key, why);
    }

    /// All that is stored for a URL.
    pub fn all_of(&self, url: &Key) -> Vec<Arc<Entry>> {
        let response = |stored| match stored {
            Some(Stored::Response(entry)) => Some(entry),
            _ => None,
        };
        match self.places.peek(url) {
            Some(Stored::Variants(variants)) => {
                lock(&variants.keys).iter().filter_map(|key| response(self.places.peek(key))).collect()
            }
            stored => response(stored).into_iter().collect(),
        }
    }

    /// Counts what the cache did with a request.
    pub fn count(&self, did: &Did) {
        self.counts.results[did.result() as usize].fetch_add(1, Ordering::Relaxed);
        if let Some(why) = did.detail() {
            self.counts.whys[why as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Purges here and on other nodes.
    pub fn purge(&self, purge: &Purge) {
        self.purge_here(purge);
        self.teller.iter().for_each(|teller| teller.tell(purge));
    }

    /// Purges. What is on its way may have any tag: it is not stored if it is purged, and no later request joins it.
    pub fn purge_here(&self, purge: &Purge) {
        self.counts.purges.fetch_add(1, Ordering::Relaxed);
        self.purges.purge(purge, || lock(&self.flights).clear());
    }

    /// A page of a host has changed: what is stored for it goes, and what is on its way is not stored, nor does a later request join it.
    pub fn change(&self, host: &str, target: &str) {
        let purge = Purge { whats: vec![What::Url(format!("//{host}{target}"))], is_soft: false };
        self.purges.purge(&purge, || {
            lock(&self.flights).retain(|_, flight| flight.place.target != target);
        });
        self.teller.iter().for_each(|teller| teller.tell(&purge));
    }

    /// A place in the flight for a request, and the flight if this request begins it.
    pub fn join(&self, place: &Arc<Place>, headers: &HeaderMap) -> (Follower, Option<Arc<Flight>>) {
        let key = self.flight_key(place, headers);
        // Before the other lock, which a purge takes later. A purge in between makes the flight one that is not stored.
        let since = self.purges.now();
        let mut flights = lock(&self.flights);
        if let Some(flight) = flights.get(&key) {
            return (flight.follow(), None);
        }
        let flight = Arc::new(Flight::new(place.clone(), key.clone(), since, self.held()));
        flights.insert(key, flight.clone());
        (flight.follow(), Some(flight))
    }

    /// A flight has landed: later requests do not join it.
    pub fn landed(&self, flight: &Arc<Flight>) {
        let mut flights = lock(&self.flights);
        if flights.get(&flight.key).is_some_and(|one| Arc::ptr_eq(one, flight)) {
            flights.remove(&flight.key);
        }
    }

    /// As long as it is unknown what Vary names, all requests for a URL share a flight.
    fn flight_key(&self, place: &Place, headers: &HeaderMap) -> Key {
        let mut key = Key::new();
        key.add(place.url.as_bytes()).add(place.led.as_bytes()).add(place.outcome.as_bytes());
        if let Some(Stored::Variants(variants)) = self.places.peek(&place.url) {
            key.add(variant::key(&variants.nominated, headers).as_bytes());
        }
        key
    }

    /// Bytes that are stored.
    pub fn bytes(&self) -> u64 {
        self.places.weight()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// It has two parts, as no key of a URL or of a variant has.
fn coded_key(entry: &Entry, coding: Coding) -> Key {
    let mut key = Key::new();
    key.add(&entry.number.to_le_bytes()).add(&[coding as u8]);
    key
}

#[cfg(test)]
mod tests;
