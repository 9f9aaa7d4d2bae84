//! What a lane's workers want purged from the cache of responses; see [`ipc::purge`].

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use cache::purge::Purge;
use ipc::purge::Boxes;

use super::{Lane, lock};

/// A lane's boxes.
pub(super) struct Purging {
    application: String,
    /// As many texts were seen.
    seen: AtomicU32,
    boxes: Mutex<Boxes>,
}

impl Purging {
    pub(super) fn new(application: &str) -> Purging {
        Purging { application: application.to_owned(), seen: AtomicU32::new(0), boxes: Mutex::default() }
    }
}

impl Lane {
    /// Calls `purge` with the application's name and what its workers want purged. Costs one load if there is nothing.
    pub fn purges(&self, mut purge: impl FnMut(&str, &Purge)) {
        let Purging { application, seen, boxes } = &self.purging;
        if self.slab.purges().load(Ordering::SeqCst) == seen.load(Ordering::Relaxed) {
            return;
        }
        let mut boxes = lock(boxes);
        let all = boxes.empty(&self.slab, |text| {
            // A text that cannot be read is one of a damaged worker, and purges nothing.
            if let Some(one) = Purge::parse(text) {
                purge(application, &one);
            }
        });
        if let Some(all) = all {
            seen.store(all, Ordering::Relaxed);
        }
    }
}
