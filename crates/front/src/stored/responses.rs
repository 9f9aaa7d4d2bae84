//! The stored responses of one application. Their number of bytes is limited; what is asked for seldom goes first, so that a visitor who asks
//! for everything once takes nothing from the others (S3-FIFO).

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cache::key::Key;
use cache::variant::{self, Nominated};
use http::HeaderName;
use http::header::HeaderMap;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::asking::Asking;
use super::entry::{Entry, OVERHEAD, Since};
use super::flight::Flight;

/// Variants of one URL, at most. More make the oldest go.
const MOST_VARIANTS: usize = 32;
/// URLs that were changed lately and that are remembered, so that no response that began before is stored.
const MOST_CHANGED: usize = 4096;
/// The part of the budget for URLs whose responses cannot be shared.
const OF_PASSED: u64 = 32;

/// What is stored for a key.
#[derive(Clone)]
enum Place {
    /// A response.
    Response(Arc<Entry>),
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

impl Weighter<Key, Place> for ByBytes {
    fn weight(&self, key: &Key, place: &Place) -> u64 {
        let own = match place {
            Place::Response(entry) => entry.bytes(),
            Place::Variants(variants) => OVERHEAD + 64 * variants.nominated.len(),
        };
        (key.as_bytes().len() + own) as u64
    }
}

#[derive(Clone)]
struct ByLength;

impl Weighter<Key, ()> for ByLength {
    fn weight(&self, key: &Key, (): &()) -> u64 {
        (key.as_bytes().len() + OVERHEAD / 4) as u64
    }
}

/// What is found for a request.
pub enum Found {
    /// A stored response for such a request; whether it may answer, its terms say.
    Entry(Arc<Entry>),
    /// Nothing for this URL.
    Nothing,
    /// Nothing for such a request.
    NoVariant,
    /// The last response to this URL could not be shared.
    Passed,
}

/// The stored responses of an application. Its locks are taken in the order `changed`, `flights`.
pub struct Responses {
    /// Bytes, at most.
    pub budget: u64,
    places: Cache<Key, Place, ByBytes>,
    /// URLs whose last response could not be shared, so that nobody waits for the next one. Each response is looked at anew.
    passed: Cache<Key, (), ByLength>,
    flights: Mutex<HashMap<Key, Arc<Flight>>>,
    changed: Mutex<Changed>,
    ids: AtomicU64,
}

#[derive(Default)]
struct Changed {
    /// Changes so far.
    number: u64,
    /// The last ones.
    urls: VecDeque<Key>,
}

impl Responses {
    /// With room for so many bytes.
    pub fn new(budget: u64) -> Responses {
        Responses {
            budget,
            places: Cache::with_weighter((budget / 4096).max(16) as usize, budget - budget / OF_PASSED, ByBytes),
            passed: Cache::with_weighter((budget / OF_PASSED / 256).max(16) as usize, budget / OF_PASSED, ByLength),
            flights: Mutex::default(),
            changed: Mutex::default(),
            ids: AtomicU64::new(0),
        }
    }

    /// What is stored for a request with these headers.
    pub fn find(&self, asking: &Asking, headers: &HeaderMap) -> Found {
        let place = match self.places.get(&asking.url) {
            Some(Place::Variants(variants)) => match self.places.get(&variants.key(&asking.url, headers)) {
                Some(Place::Response(entry)) => Place::Response(entry),
                _ => return Found::NoVariant,
            },
            Some(place) => place,
            None if self.passed.get(&asking.url).is_some() => return Found::Passed,
            None => return Found::Nothing,
        };
        match place {
            // By other rules it is another response.
            Place::Response(entry) if entry.outcome == asking.outcome => Found::Entry(entry),
            _ => Found::Nothing,
        }
    }

    /// How many URLs have changed.
    pub fn now(&self) -> Since {
        Since(lock(&self.changed).number)
    }

    /// Stores a response, unless its URL has changed since its request began.
    pub fn store(&self, url: &Key, entry: Entry, since: Since) -> bool {
        // The lock is held until the response is stored: a change waits, and then removes it.
        let changed = lock(&self.changed);
        let missed = (changed.number - since.0) as usize;
        let is_changed = missed > changed.urls.len() || changed.urls.iter().rev().take(missed).any(|one| one == url);
        if is_changed {
            return false;
        }
        self.passed.remove(url);
        let entry = Arc::new(entry);
        if entry.terms.nominated.is_empty() {
            self.places.insert(url.clone(), Place::Response(entry));
            return true;
        }
        let variants = match self.places.peek(url) {
            Some(Place::Variants(known)) if known.nominated == entry.terms.nominated => known,
            _ => {
                let id = self.ids.fetch_add(1, Ordering::Relaxed);
                let nominated = entry.terms.nominated.clone();
                let new = Arc::new(Variants { id, nominated, keys: Mutex::default() });
                self.places.insert(url.clone(), Place::Variants(new.clone()));
                new
            }
        };
        let key = variants.key(url, &entry.asked);
        let mut keys = lock(&variants.keys);
        if !keys.contains(&key) {
            keys.push_back(key.clone());
        }
        if keys.len() > MOST_VARIANTS {
            if let Some(oldest) = keys.pop_front() {
                self.places.remove(&oldest);
            }
        }
        self.places.insert(key, Place::Response(entry));
        true
    }

    /// Remembers that the response to a URL cannot be shared.
    pub fn pass(&self, url: &Key) {
        self.passed.insert(url.clone(), ());
    }

    /// A URL has changed: what is stored for it goes, and what is on its way is not stored, nor does a later request join it.
    pub fn change(&self, url: &Key) {
        let mut changed = lock(&self.changed);
        changed.number += 1;
        changed.urls.push_back(url.clone());
        if changed.urls.len() > MOST_CHANGED {
            changed.urls.pop_front();
        }
        self.places.remove(url);
        lock(&self.flights).retain(|_, flight| flight.url != *url);
    }

    /// The flight for a request, and whether this request begins it.
    pub fn join(&self, asking: &Asking, head: &HeaderMap) -> (Arc<Flight>, bool) {
        let key = self.flight_key(asking, head);
        // Before the other lock: `change` takes both in this order. A change in between makes the flight one that is not stored.
        let since = self.now();
        let mut flights = lock(&self.flights);
        if let Some(flight) = flights.get(&key) {
            return (flight.clone(), false);
        }
        let flight = Arc::new(Flight::new(asking.url.clone(), since));
        flights.insert(key, flight.clone());
        (flight, true)
    }

    /// A flight has landed: later requests do not join it.
    pub fn landed(&self, flight: &Arc<Flight>) {
        lock(&self.flights).retain(|_, one| !Arc::ptr_eq(one, flight));
    }

    /// As long as it is unknown what Vary names, all requests for a URL share a flight.
    fn flight_key(&self, asking: &Asking, headers: &HeaderMap) -> Key {
        let mut key = Key::new();
        key.add(asking.url.as_bytes()).add(asking.outcome.as_bytes());
        if let Some(Place::Variants(variants)) = self.places.peek(&asking.url) {
            key.add(variant::key(&variants.nominated, headers).as_bytes());
        }
        key
    }

    /// Bytes that are stored.
    pub fn bytes(&self) -> u64 {
        self.places.weight()
    }
}

impl Variants {
    fn key(&self, url: &Key, headers: &HeaderMap) -> Key {
        let mut key = Key::new();
        key.add(url.as_bytes()).add(&self.id.to_le_bytes());
        key.add(variant::key(&self.nominated, headers).as_bytes());
        key
    }
}

/// Those headers of a request that choose a response.
pub fn chosen_by(nominated: &[HeaderName], headers: &HeaderMap) -> HeaderMap {
    let mut chosen = HeaderMap::new();
    for name in nominated {
        for value in headers.get_all(name) {
            chosen.append(name, value.clone());
        }
    }
    chosen
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
