//! What the data caches of applications have done, as their prototypes have said last: the front has no part in them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ipc::control::DataCounts;

/// After so long without a word there is no such cache any more: prototypes say their numbers every few seconds.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// By the name of the application. An application keeps its numbers over a reload, as it keeps its values.
#[derive(Default)]
pub struct DataCaches(Mutex<BTreeMap<String, (Instant, DataCounts)>>);

/// A metric: its name, its kind, its help, and where it is.
pub type Metric = (&'static str, &'static str, &'static str, fn(&DataCounts) -> f64);

/// In the order in which they are written.
pub const METRICS: [Metric; 14] = [
    ("reprise_data_cache_hits", "counter", "Fetches from the data cache that found a value.", |is| is.hits as f64),
    ("reprise_data_cache_misses", "counter", "Fetches that found none.", |is| is.misses as f64),
    ("reprise_data_cache_stale", "counter", "Values that were given out stale.", |is| is.stale as f64),
    ("reprise_data_cache_stores", "counter", "Values stored.", |is| is.stores as f64),
    ("reprise_data_cache_waits", "counter", "Requests that waited for a value that another computed.", |is| {
        is.waits as f64
    }),
    ("reprise_data_cache_computed", "counter", "Values computed.", |is| is.computed as f64),
    ("reprise_data_cache_evictions", "counter", "Values that made room for others.", |is| is.evicted as f64),
    ("reprise_data_cache_refused", "counter", "Values not stored, because no memory could be used again yet.", |is| {
        is.refused as f64
    }),
    ("reprise_data_cache_swept", "counter", "Processes that died and whose leases were taken back.", |is| {
        is.swept as f64
    }),
    ("reprise_data_cache_entries", "gauge", "Values that the data cache holds.", |is| is.entries as f64),
    ("reprise_data_cache_bytes", "gauge", "Bytes of these values.", |is| is.bytes as f64),
    ("reprise_data_cache_memory_bytes", "gauge", "Bytes that it may use.", |is| is.memory as f64),
    ("reprise_data_cache_held_bytes", "gauge", "Bytes of removed values that requests may still hold.", |is| {
        is.held as f64
    }),
    ("reprise_data_cache_held_seconds", "gauge", "How long the oldest request with values has had them.", |is| {
        is.held_ms as f64 / 1000.0
    }),
];

/// More of applications whose data cache has a store.
pub const OF_STORES: [Metric; 5] = [
    ("reprise_data_cache_store_up", "gauge", "1 while the store that is shared with other nodes can be asked.", |is| {
        is.store_ready as f64
    }),
    ("reprise_data_cache_store_requests", "counter", "Requests of workers to the store.", |is| {
        is.store_requests as f64
    }),
    ("reprise_data_cache_store_failures", "counter", "Of these, the ones to which the store had no reply.", |is| {
        is.store_failures as f64
    }),
    ("reprise_data_cache_store_forged", "counter", "Values and messages in the store with a wrong signature.", |is| {
        is.store_forged as f64
    }),
    ("reprise_data_cache_store_untold", "gauge", "Changes of which other nodes were not told yet.", |is| {
        is.store_untold as f64
    }),
];

impl DataCaches {
    /// The prototype of an application has said it.
    pub fn told(&self, application: &str, counts: DataCounts) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, (since, _)| since.elapsed() < FORGOTTEN);
        all.insert(application.to_owned(), (Instant::now(), counts));
    }

    /// The last numbers of an application.
    pub fn of(&self, application: &str) -> Option<DataCounts> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(application).filter(|(since, _)| since.elapsed() < FORGOTTEN).map(|(_, counts)| *counts)
    }
}
