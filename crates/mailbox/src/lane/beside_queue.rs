//! Beside the queue: where a request waits that may get the response of another one, as long as it stands in nobody's way and nobody comes
//! before it. It leaves when a worker is free, and when another request has to wait, which would overtake it.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::Lane;

/// Those that wait beside the queue of a lane.
#[derive(Default)]
pub(super) struct Besides {
    count: AtomicUsize,
    moved: Notify,
    /// Requests that wait for a worker or have one.
    unfinished: AtomicUsize,
}

/// A place beside the queue.
pub struct Beside<'a>(&'a Besides);

impl Beside<'_> {
    /// Waits until there is a reason to look again, from this call on.
    pub fn moved(&self) -> Notified<'_> {
        self.0.moved.notified()
    }
}

impl Drop for Beside<'_> {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Lane {
    /// Whether a request that is posted now would be the first one to wait for a worker. Workers that the lane may still get count as free.
    pub fn is_just_full(&self) -> bool {
        self.unfinished() == self.max_workers
    }

    /// A place beside the queue.
    pub fn beside(&self) -> Beside<'_> {
        self.besides.count.fetch_add(1, Ordering::SeqCst);
        Beside(&self.besides)
    }

    fn unfinished(&self) -> usize {
        self.besides.unfinished.load(Ordering::SeqCst)
    }

    /// Another request is going to be posted.
    pub(super) fn begins(&self) {
        if self.besides.unfinished.fetch_add(1, Ordering::SeqCst) >= self.max_workers {
            self.tell();
        }
    }

    /// A worker has no more to do with a request. If nobody has noted that yet when its exchange is free, it is noted then: by that time
    /// those who wait for its response have learned of it. A client that does not read holds its exchange for longer ([`Lane::sweep`]).
    pub(super) fn ends(&self) {
        self.besides.unfinished.fetch_sub(1, Ordering::SeqCst);
        self.tell();
    }

    /// Those who wait were counted before they looked, and look before they wait.
    fn tell(&self) {
        if self.besides.count.load(Ordering::SeqCst) > 0 {
            self.besides.moved.notify_waiters();
        }
    }
}
