//! What responses on their way hold, beside the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a response on its way, which count until this is dropped.
pub struct Held {
    all: Arc<AtomicU64>,
    own: u64,
}

impl Held {
    /// Nothing yet. `all`: what all responses of an application hold.
    pub const fn of(all: Arc<AtomicU64>) -> Held {
        Held { all, own: 0 }
    }

    /// So many more.
    pub fn add(&mut self, bytes: usize) {
        self.own += bytes as u64;
        self.all.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// So many less.
    pub fn remove(&mut self, bytes: usize) {
        let bytes = self.own.min(bytes as u64);
        self.own -= bytes;
        self.all.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.all.fetch_sub(self.own, Ordering::Relaxed);
    }
}
