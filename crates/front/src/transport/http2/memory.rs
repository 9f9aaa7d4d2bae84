//! What HTTP/2 holds in memory for clients that do not read, and the limits of that.
//!
//! A client opens many streams and lets each response wait by never giving it a window. So all that such a stream holds is
//! counted: its task, its head, the bytes of its response. A connection has a limit, and so has the front. Beyond the front's
//! limit each connection still has a small share, which is enough for one response at a time, so a client that reads is
//! served whatever others hold.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use inbound::http2_limits::{HELD, Limit, held};

/// What a stream costs besides its head and its response: its task, what h2 keeps of it, an open file.
pub const STREAM: usize = 8 * 1024;
/// What one of the allowed streams of a connection may hold on average while it waits: itself and the largest head of `http2_head`'s default.
const PER_STREAM: usize = STREAM + 32 * 1024;
/// What a connection may hold when the front's limit is reached.
const SHARE: usize = 64 * 1024;
/// Bytes of responses that are on their way from their bodies to the socket of a connection.
const ON_THEIR_WAY: usize = 128 * 1024;
/// Bytes of responses that wait for the window of a connection before no further request of it begins.
const PARKED: usize = 256 * 1024;
/// How many of its streams may be reset at once, and how many more for each second.
const RESETS: u32 = 200;
const RESETS_PER_SECOND: u32 = 20;

/// What one connection holds.
pub struct Account {
    /// The front's limit.
    limit: usize,
    /// The connection's own.
    own_limit: usize,
    held: AtomicUsize,
    parked: AtomicUsize,
    on_their_way: AtomicUsize,
    streams: AtomicUsize,
    /// Streams whose response waits for the client's window.
    stalled: AtomicUsize,
    state: Mutex<State>,
    has_end: AtomicBool,
}

struct State {
    /// When the client last gave a window to a response that waited for one, or there was none.
    progress: Instant,
    /// When the last stream ended.
    idle: Instant,
    resets: u32,
    resets_since: Instant,
    end: Option<Limit>,
    driver: Option<Waker>,
    waiting: Vec<Waker>,
}

impl Account {
    /// For a new connection with that many streams at once; `limit`: bytes that all connections may hold.
    pub fn new(limit: usize, streams: usize) -> Arc<Account> {
        let now = Instant::now();
        Arc::new(Account {
            limit,
            own_limit: streams.saturating_mul(PER_STREAM).max(SHARE),
            held: AtomicUsize::new(0),
            parked: AtomicUsize::new(0),
            on_their_way: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
            stalled: AtomicUsize::new(0),
            state: Mutex::new(State {
                progress: now,
                idle: now,
                resets: 0,
                resets_since: now,
                end: None,
                driver: None,
                waiting: Vec::new(),
            }),
            has_end: AtomicBool::new(false),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_crowded(&self) -> bool {
        held() > self.limit
    }

    /// Counts a new stream, with a head of that size. `None`: there is no room for it.
    pub fn enter(self: &Arc<Account>, head: usize) -> Option<Held> {
        let own = self.held.load(Ordering::Relaxed) + STREAM + head;
        if own > self.own_limit || self.is_crowded() && own > SHARE {
            return None;
        }
        self.streams.fetch_add(1, Ordering::Relaxed);
        let mut held = Held { account: self.clone(), bytes: 0, parked: 0 };
        held.set(STREAM + head);
        Some(held)
    }

    /// Ready when a request may begin whose response has to be held.
    pub fn poll_turn(&self, context: &mut Context<'_>) -> Poll<()> {
        self.poll_until(context, || self.is_below(&self.parked, PARKED))
    }

    /// Ready with room for the next part of a body, which is to be filled or given back.
    pub fn poll_room(self: &Arc<Account>, context: &mut Context<'_>) -> Poll<Room> {
        self.poll_until(context, || self.is_below(&self.on_their_way, ON_THEIR_WAY))
            .map(|()| Room { account: self.clone(), bytes: 0 })
    }

    /// Whether more of something may begin: its limit is not reached, or there is none of it.
    fn is_below(&self, count: &AtomicUsize, limit: usize) -> bool {
        let count = count.load(Ordering::Relaxed);
        count == 0 || count < limit && !self.is_crowded()
    }

    fn poll_until(&self, context: &mut Context<'_>, is_so: impl Fn() -> bool) -> Poll<()> {
        if is_so() {
            return Poll::Ready(());
        }
        let mut state = self.lock();
        if !state.waiting.iter().any(|known| known.will_wake(context.waker())) {
            state.waiting.push(context.waker().clone());
        }
        drop(state);
        // Who has made room before this stream stood in the list has not woken it. The lock makes his count visible here.
        if is_so() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Takes from a count. All who wait look again when it falls below its limit or there is nothing left of it: these are the
    /// moments at which [`Account::is_below`] becomes true by this connection alone, so nobody waits for another connection.
    fn release(&self, count: &AtomicUsize, bytes: usize, limit: usize) {
        let before = count.fetch_sub(bytes, Ordering::Relaxed);
        let after = before - bytes;
        if bytes > 0 && (after == 0 || before >= limit && after < limit) {
            let waiting = std::mem::take(&mut self.lock().waiting);
            waiting.into_iter().for_each(Waker::wake);
        }
    }

    /// Counts a stream whose response waits for the client's window.
    pub fn stall(self: &Arc<Account>) -> Stalled {
        if self.stalled.fetch_add(1, Ordering::Relaxed) == 0 {
            let mut state = self.lock();
            state.progress = Instant::now();
            let driver = state.driver.take();
            drop(state);
            driver.into_iter().for_each(Waker::wake);
        }
        Stalled(self.clone())
    }

    /// Whether responses wait for the client's window.
    pub fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::Relaxed) > 0
    }

    /// Whether responses wait, and the client has given none of them a window for so long.
    pub fn has_stood_still_for(&self, time: Duration) -> bool {
        self.is_stalled() && self.lock().progress.elapsed() >= time
    }

    /// Whether the front holds too much, and this connection has its part in that without having read for a second.
    pub fn is_in_the_way(&self) -> bool {
        self.is_crowded()
            && self.held.load(Ordering::Relaxed) > SHARE
            && self.has_stood_still_for(Duration::from_secs(1))
    }

    /// Counts a stream that was reset before its response was complete, by the client or for an error of the client.
    pub fn note_reset(&self) {
        let mut state = self.lock();
        state.resets += 1;
        if state.resets > RESETS {
            let back = state.resets_since.elapsed().as_secs().saturating_mul(u64::from(RESETS_PER_SECOND));
            state.resets = state.resets.saturating_sub(back.try_into().unwrap_or(u32::MAX));
            state.resets_since = Instant::now();
        }
        let is_over = state.resets > RESETS;
        drop(state);
        if is_over {
            self.end(Limit::Resets);
        }
    }

    /// Ends the connection.
    pub fn end(&self, why: Limit) {
        let mut state = self.lock();
        state.end.get_or_insert(why);
        self.has_end.store(true, Ordering::Release);
        let driver = state.driver.take();
        drop(state);
        driver.into_iter().for_each(Waker::wake);
    }

    /// Ready when the connection is to end.
    pub fn poll_end(&self, context: &mut Context<'_>) -> Poll<Limit> {
        let mut state = self.lock();
        if let Some(why) = state.end {
            return Poll::Ready(why);
        }
        if !state.driver.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
            state.driver = Some(context.waker().clone());
        }
        Poll::Pending
    }

    /// Whether [`Account::end`] was called.
    pub fn has_end(&self) -> bool {
        self.has_end.load(Ordering::Acquire)
    }

    /// Since when there has been no stream. `None`: there is one.
    pub fn idle_since(&self) -> Option<Instant> {
        (self.streams.load(Ordering::Relaxed) == 0).then(|| self.lock().idle)
    }
}

/// What one stream holds, until this is dropped.
pub struct Held {
    account: Arc<Account>,
    bytes: usize,
    parked: usize,
}

impl Held {
    /// What the stream holds now.
    fn set(&mut self, bytes: usize) {
        for count in [&HELD, &self.account.held] {
            count.fetch_add(bytes, Ordering::Relaxed);
            count.fetch_sub(self.bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }

    /// The response is there, and so many bytes of it are in memory and wait for the client's window.
    pub fn park(&mut self, bytes: usize) {
        self.set(self.bytes + bytes - self.parked);
        self.account.parked.fetch_add(bytes, Ordering::Relaxed);
        self.account.release(&self.account.parked, self.parked, PARKED);
        self.parked = bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.account.release(&self.account.parked, self.parked, PARKED);
        self.set(0);
        if self.account.streams.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.account.lock().idle = Instant::now();
        }
    }
}

/// Room for a part of a body, until all its bytes are written.
pub struct Room {
    account: Arc<Account>,
    bytes: usize,
}

impl Room {
    /// The part has so many bytes.
    pub fn fill(&mut self, bytes: usize) {
        self.bytes += bytes;
        for count in [&HELD, &self.account.held, &self.account.on_their_way] {
            count.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        for count in [&HELD, &self.account.held] {
            count.fetch_sub(self.bytes, Ordering::Relaxed);
        }
        self.account.release(&self.account.on_their_way, self.bytes, ON_THEIR_WAY);
    }
}

/// A stream whose response waits for the client's window.
pub struct Stalled(Arc<Account>);

impl Stalled {
    /// The client has given a window.
    pub fn go_on(self) {
        self.0.lock().progress = Instant::now();
    }
}

impl Drop for Stalled {
    fn drop(&mut self) {
        self.0.stalled.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Woken(AtomicBool);

    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// All tests share what the front holds, so one test has all cases.
    #[test]
    fn what_waits_is_counted_and_limited() {
        let mut context = Context::from_waker(Waker::noop());
        let account = Account::new(1 << 20, 4);
        let streams: Vec<Held> = std::iter::from_fn(|| account.enter(1024)).collect();
        assert_eq!(streams.len(), 4 * PER_STREAM / (STREAM + 1024));
        assert!(account.idle_since().is_none() && held() >= streams.len() * STREAM);
        drop(streams);
        assert!(account.idle_since().is_some() && account.held.load(Ordering::Relaxed) == 0);

        let mut large = account.enter(0).unwrap();
        assert!(account.poll_turn(&mut context).is_ready());
        large.park(PARKED);
        assert!(account.poll_turn(&mut context).is_pending());
        large.park(10);
        assert!(account.poll_turn(&mut context).is_ready());

        // Another connection fills the front. Then this one has its share.
        let other = Account::new(1 << 20, 100);
        let mut greedy = other.enter(0).unwrap();
        greedy.park(2 << 20);
        assert!(other.enter(0).is_none() && account.enter(0).is_some());
        assert!(account.enter(SHARE).is_none() && account.poll_turn(&mut context).is_pending());
        large.park(0);
        assert!(account.poll_turn(&mut context).is_ready());
        let Poll::Ready(mut room) = account.poll_room(&mut context) else { panic!("no room") };
        room.fill(1);
        assert!(account.poll_room(&mut context).is_pending());
        drop(greedy);
        assert!(account.poll_room(&mut context).is_ready());
        room.fill(ON_THEIR_WAY);
        assert!(account.poll_room(&mut context).is_pending());
        drop((room, large));
        assert_eq!(account.held.load(Ordering::Relaxed), 0);

        assert!(!account.has_stood_still_for(Duration::ZERO));
        let stalled = account.stall();
        assert!(account.has_stood_still_for(Duration::ZERO) && !account.has_stood_still_for(Duration::from_secs(9)));
        stalled.go_on();
        assert!(!account.has_stood_still_for(Duration::ZERO));

        // Whoever waits for room is woken, though a stream before it waits for something else, or is gone.
        let (room_waits, turn_waits) = (Arc::new(Woken::default()), Arc::new(Woken::default()));
        let mut parked = account.enter(0).unwrap();
        parked.park(PARKED);
        assert!(account.poll_turn(&mut Context::from_waker(&turn_waits.clone().into())).is_pending());
        let Poll::Ready(mut room) = account.poll_room(&mut context) else { panic!("no room") };
        room.fill(ON_THEIR_WAY);
        assert!(account.poll_room(&mut Context::from_waker(&room_waits.clone().into())).is_pending());
        drop(room);
        assert!(room_waits.0.load(Ordering::Relaxed) && turn_waits.0.load(Ordering::Relaxed));
        drop(parked);

        (0..RESETS).for_each(|_| account.note_reset());
        assert!(account.poll_end(&mut context).is_pending() && !account.has_end());
        account.note_reset();
        assert_eq!(account.poll_end(&mut context), Poll::Ready(Limit::Resets));
    }
}
