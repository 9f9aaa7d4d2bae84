//! What has changed, as server-sent events for the pages that listen.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tokio::sync::watch;

use super::fence::Told;
use inbound::connection::{Connection, Left};
use inbound::request::Head;

/// A page is told when nothing has changed for so long: a save is several changes.
const QUIET: Duration = Duration::from_millis(15);
/// So many times.
const MAX_QUIET: usize = 10;
/// After so long without a change the connection is used, so that its end is noticed.
const ALIVE: Duration = Duration::from_secs(15);
/// A change that a request makes so soon after pages were told may come of their reload.
const SOON: Duration = Duration::from_secs(2);
/// So many of these are a circle.
const CIRCLE: u32 = 5;

/// What pages are told.
pub struct Browsers {
    known: watch::Receiver<Told>,
    /// Names this front: what another has counted means nothing here.
    front: u64,
    circle: Mutex<Circle>,
}

/// Reloads that change files, which ask for reloads.
#[derive(Default)]
struct Circle {
    /// The changes that pages are told of.
    until: u64,
    /// When that moved on.
    told: Option<Instant>,
    turns: u32,
}

impl Browsers {
    /// With what is known, as it changes.
    pub fn new(known: watch::Receiver<Told>) -> Browsers {
        let front = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        Browsers { known, front, circle: Mutex::default() }
    }

    /// Where a page stands that has so many changes.
    pub fn since(&self, change: u64) -> String {
        format!("{}.{change}", self.front)
    }

    /// There are so many changes now. `is_busy`: a request runs. Returns of how many pages are told, and whether that stays behind for the
    /// first time.
    pub fn note(&self, count: u64, is_busy: bool) -> (u64, bool) {
        let mut circle = self.circle.lock().unwrap_or_else(PoisonError::into_inner);
        let is_circle = circle.note(count, is_busy, Instant::now());
        (circle.until, is_circle)
    }

    /// The events for a page, which says where it stands.
    pub fn events(&self, head: &Head, connection: &Arc<Connection>) -> Events {
        // That of a connection that was lost.
        let last = head.headers.get("last-event-id").and_then(|value| value.to_str().ok());
        let stands = last.or_else(|| head.target.query()?.strip_prefix("after=")).unwrap_or_default();
        let of_this = stands.strip_prefix(&format!("{}.", self.front));
        // A page of another front is told at once.
        let after = of_this.and_then(|count| count.parse().ok());
        let (known, front) = (self.known.clone(), self.front);
        Events { next: next(Listener { known, front, after }), reader: connection.clone() }
    }
}

impl Circle {
    fn note(&mut self, count: u64, is_busy: bool, now: Instant) -> bool {
        if count <= self.until {
            return false;
        }
        let is_soon = self.told.is_some_and(|told| now.saturating_duration_since(told) < SOON);
        self.turns = if is_busy && (is_soon || self.turns > CIRCLE) { self.turns + 1 } else { 0 };
        if self.turns <= CIRCLE {
            self.until = count;
            self.told = Some(now);
        }
        self.turns == CIRCLE + 1
    }
}

/// One page that listens.
struct Listener {
    known: watch::Receiver<Told>,
    front: u64,
    /// The changes that it has; `None`: nobody knows.
    after: Option<u64>,
}

type Next = Pin<Box<dyn Future<Output = Option<(Listener, Bytes)>> + Send + Sync>>;

/// The events of one page, as a body.
pub struct Events {
    next: Next,
    reader: Arc<Connection>,
}

impl Events {
    /// The next event; the end, when the server ends.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        match self.next.as_mut().poll(context) {
            Poll::Ready(Some((listener, event))) => {
                self.next = next(listener);
                Poll::Ready(Some(Ok(event)))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => match self.reader.client.poll_left(context) {
                Poll::Ready(Left::Gone) => Poll::Ready(None),
                _ => Poll::Pending,
            },
        }
    }
}

fn next(mut listener: Listener) -> Next {
    Box::pin(async move {
        loop {
            if listener.known.borrow_and_update().is_over {
                return None;
            }
            if let Some(event) = listener.event().await {
                return Some((listener, event));
            }
            match tokio::time::timeout(ALIVE, listener.known.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return None,
                Err(_) => return Some((listener, Bytes::from_static(b": \n\n"))),
            }
        }
    })
}

impl Listener {
    /// What the page is to be told now.
    async fn event(&mut self) -> Option<Bytes> {
        if self.after.is_some_and(|after| self.known.borrow_and_update().until <= after) {
            return None;
        }
        for _ in 0..MAX_QUIET {
            if tokio::time::timeout(QUIET, self.known.changed()).await.is_err() {
                break;
            }
        }
        let (until, page) = {
            let known = self.known.borrow_and_update();
            (known.until, known.changes.page)
        };
        let word = if self.after.is_none_or(|after| page > after) { "page" } else { "style" };
        self.after = Some(until);
        let stands = format!("{}.{until}", self.front);
        Some(Bytes::from(format!("event: {word}\nid: {stands}\ndata: {stands}\n\n")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_of_reloads_ends_and_a_save_begins_anew() {
        let (mut circle, begin) = (Circle::default(), Instant::now());
        let at = |milliseconds| begin + Duration::from_millis(milliseconds);
        let mut said = 0;
        for turn in 1..=20 {
            said += u32::from(circle.note(turn, true, at(turn * 100)));
        }
        assert_eq!((said, circle.until), (1, u64::from(CIRCLE) + 1));
        // Somebody saves a file while nothing runs.
        assert!(!circle.note(21, false, at(60_000)));
        assert_eq!(circle.until, 21);
        // Saves during requests that take long are no circle.
        for turn in 22..50 {
            assert!(!circle.note(turn, true, at(60_000 + (turn - 20) * 3000)));
            assert_eq!(circle.until, turn);
        }
    }
}
