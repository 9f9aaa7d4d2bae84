//! Messages that the bus has not taken yet, in their order. Their number has a bound: beyond it one message says that everything has changed.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::envelope::{Change, Message};

/// Messages that wait.
const MOST: usize = 10_000;
/// Bytes of their changes.
const MOST_BYTES: usize = 4 << 20;
/// Messages that are sent again after a connection has broken, because the store may have lost them.
const AGAIN: usize = 1000;

/// What is told in one go.
pub struct Batch {
    /// In their order.
    pub messages: Vec<Message>,
    /// So many of them, the first ones, were sent before.
    pub repeated: usize,
    /// Which outbox they are of: [`Outbox::sent`] takes it.
    node: u64,
}

struct Inner {
    node: u64,
    last: u64,
    sent: u64,
    waiting: VecDeque<Message>,
    bytes: usize,
    recent: VecDeque<Message>,
    is_again: bool,
}

/// Shared by who tells and who sends.
pub struct Outbox {
    inner: Mutex<Inner>,
    changed: Condvar,
}

/// What waits: how many.
pub type OnCount<'a> = &'a dyn Fn(usize);

fn size(change: &Change) -> usize {
    64 + match change {
        Change::Tag(name) | Change::Key(name, _) | Change::Purge(name) => name.len(),
        Change::Flush | Change::Lost => 0,
    }
}

impl Inner {
    fn new() -> Inner {
        Inner {
            // 0 is nobody.
            node: fastrand::u64(1..),
            last: 0,
            sent: 0,
            waiting: VecDeque::new(),
            bytes: 0,
            recent: VecDeque::new(),
            is_again: false,
        }
    }
}

impl Default for Outbox {
    fn default() -> Outbox {
        Outbox { inner: Mutex::new(Inner::new()), changed: Condvar::new() }
    }
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // What a panic interrupts is a message more or less at the end of a queue.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a message. `expect` learns of it before anybody can send it; with the number of messages that wait. Returns node and number.
    pub fn tell(&self, change: Change, expect: impl FnOnce(u64, &Change), count: OnCount<'_>) -> (u64, u64) {
        let mut inner = self.lock();
        let mut change = change;
        if inner.waiting.len() >= MOST || inner.bytes + size(&change) > MOST_BYTES {
            // Another node's name: what was not sent is no gap.
            *inner = Inner::new();
            change = Change::Lost;
        }
        inner.last += 1;
        let message = Message { node: inner.node, sequence: inner.last, change };
        expect(message.sequence, &message.change);
        inner.bytes += size(&message.change);
        inner.waiting.push_back(message);
        count(inner.waiting.len());
        self.changed.notify_all();
        (inner.node, inner.last)
    }

    /// Waits until that message was sent. False: it was not in time.
    pub fn wait_for(&self, (node, sequence): (u64, u64), patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let mut inner = self.lock();
        while inner.node == node && inner.sent < sequence {
            let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else {
                return false;
            };
            inner = self.changed.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        // Of another one all was dropped, and is told by one message.
        inner.node == node
    }

    /// Waits until everything was sent, at most so long.
    pub fn wait_until_empty(&self, patience: Duration) {
        let waits = |inner: &mut Inner| !inner.waiting.is_empty();
        drop(self.changed.wait_timeout_while(self.lock(), patience, waits).unwrap_or_else(PoisonError::into_inner));
    }

    /// What is to be sent next, at most `most`; waits for something at most so long.
    pub fn next(&self, most: usize, patience: Duration) -> Batch {
        let mut inner = self.lock();
        if inner.waiting.is_empty() && !inner.is_again {
            inner = self.changed.wait_timeout(inner, patience).unwrap_or_else(PoisonError::into_inner).0;
        }
        let again =
            if std::mem::take(&mut inner.is_again) { inner.recent.iter().cloned().collect() } else { Vec::new() };
        let (repeated, fresh) = (again.len(), inner.waiting.iter().take(most).cloned());
        Batch { messages: again.into_iter().chain(fresh).collect(), repeated, node: inner.node }
    }

    /// These were taken. `count` gets the number that waits still.
    pub fn sent(&self, batch: &Batch, count: OnCount<'_>) {
        let mut inner = self.lock();
        let Some(last) = batch.messages.last().filter(|_| batch.node == inner.node) else { return };
        while inner.waiting.front().is_some_and(|message| message.sequence <= last.sequence) {
            let Some(message) = inner.waiting.pop_front() else { break };
            inner.bytes = inner.bytes.saturating_sub(size(&message.change));
            inner.recent.push_back(message);
            if inner.recent.len() > AGAIN {
                inner.recent.pop_front();
            }
        }
        inner.sent = inner.sent.max(last.sequence);
        count(inner.waiting.len());
        self.changed.notify_all();
    }

    /// The connection has broken: the store may have lost what it took last.
    pub fn again(&self) {
        let mut inner = self.lock();
        inner.is_again = !inner.recent.is_empty();
        self.changed.notify_all();
    }

    /// Which node this is, until too many messages wait.
    pub fn node(&self) -> u64 {
        self.lock().node
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tell(outbox: &Outbox, name: &str) -> (u64, u64) {
        outbox.tell(Change::Tag(name.into()), |_, _| (), &|_| ())
    }

    fn names(batch: &Batch) -> Vec<String> {
        let name = |message: &Message| match &message.change {
            Change::Tag(name) => String::from_utf8_lossy(name).into_owned(),
            other => format!("{other:?}"),
        };
        batch.messages.iter().map(name).collect()
    }

    #[test]
    fn messages_wait_in_their_order_until_they_were_sent() {
        let outbox = Outbox::default();
        let (first, second) = (tell(&outbox, "a"), tell(&outbox, "b"));
        let batch = outbox.next(1, Duration::ZERO);
        assert_eq!(names(&batch), ["a"]);
        assert!(!outbox.wait_for(first, Duration::ZERO));
        outbox.sent(&batch, &|left| assert_eq!(left, 1));
        assert!(outbox.wait_for(first, Duration::ZERO) && !outbox.wait_for(second, Duration::ZERO));
        // The connection breaks: what was sent is sent again, before the rest.
        outbox.again();
        assert_eq!(names(&outbox.next(9, Duration::ZERO)), ["a", "b"]);
        assert_eq!(names(&outbox.next(9, Duration::ZERO)), ["b"]);
    }

    #[test]
    fn too_many_messages_become_one() {
        let outbox = Outbox::default();
        let first = tell(&outbox, "a");
        let old = outbox.next(1, Duration::ZERO);
        for _ in 0..MOST {
            tell(&outbox, "b");
        }
        let batch = outbox.next(9, Duration::ZERO);
        assert_eq!((names(&batch), batch.messages[0].sequence), (vec!["Lost".to_owned()], 1));
        assert!(outbox.node() != first.0 && !outbox.wait_for(first, Duration::ZERO));
        outbox.sent(&old, &|_| panic!("it is of another node"));
        tell(&outbox, &"x".repeat(MOST_BYTES));
        assert_eq!(names(&outbox.next(9, Duration::ZERO)), ["Lost"]);
    }
}
