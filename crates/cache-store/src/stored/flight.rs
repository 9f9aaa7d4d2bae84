//! A response on its way that several requests wait for. The task that fetches it belongs to nobody's connection; whoever waits reads what has
//! come.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use cache::key::Key;
use cache::variant::Nominated;
use http::StatusCode;
use http::header::HeaderMap;

use super::asking::Place;
use super::entry::{Entry, Since};
use super::in_flight::Held;
use routing::reason::Reason;
use routing::refusal::Refusal;

/// A response on its way.
pub struct Flight {
    /// What is fetched.
    pub place: Arc<Place>,
    /// By which it is found.
    pub key: Key,
    /// Purges when it began.
    pub since: Since,
    state: Mutex<State>,
    numbers: AtomicU64,
}

struct State {
    head: Head,
    /// What has come and is still to be read.
    parts: VecDeque<Bytes>,
    /// The number of the first of them.
    first: usize,
    end: End,
    followers: HashMap<u64, Position>,
    /// Who fetches the response waits for room.
    fetching: Option<Waker>,
    /// What `parts` hold.
    held: Held,
}

/// Where a follower is.
#[derive(Default)]
struct Position {
    /// The part that is next.
    next: usize,
    waker: Option<Waker>,
    is_cut_off: bool,
}

/// What is known of the response.
#[derive(Clone)]
pub enum Head {
    /// Nothing yet.
    Awaited,
    /// It may be shared.
    Shared(Arc<Begun>),
    /// The stored response is still right, or has been stored anew.
    Stored(Arc<Entry>),
    /// It may not be shared: everybody asks for himself.
    Unshared,
    /// Its first client has it already (304). Others may ask for it to be shared.
    Unmodified,
    /// There is none.
    Failed(Refusal),
}

/// The head of a response that may be shared.
pub struct Begun {
    /// Its status.
    pub status: StatusCode,
    /// The reason phrase, if PHP chose one.
    pub reason: Option<Reason>,
    /// Its headers.
    pub headers: HeaderMap,
    /// Whether requests with a cookie get it too.
    pub is_public: bool,
    /// The headers of a request that choose it.
    pub nominated: Nominated,
    /// The cookies of which a visitor must have none.
    pub cookies: Option<Vec<String>>,
    /// What its own request said there.
    pub asked: HeaderMap,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Open,
    Complete,
    Broken,
}

impl Flight {
    /// That has just begun.
    pub fn new(place: Arc<Place>, key: Key, since: Since, held: Held) -> Flight {
        let state = State {
            head: Head::Awaited,
            parts: VecDeque::new(),
            first: 0,
            end: End::Open,
            followers: HashMap::new(),
            fetching: None,
            held,
        };
        Flight { place, key, since, state: Mutex::new(state), numbers: AtomicU64::new(0) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let waiting: Vec<Waker> = {
            let mut state = self.state();
            change(&mut state);
            state.followers.values_mut().filter_map(|place| place.waker.take()).collect()
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// What is known of the head now.
    pub fn know(&self, head: Head) {
        self.change(|state| state.head = head);
    }

    /// Another part of the body has come.
    pub fn add(&self, part: Bytes) {
        self.change(|state| {
            state.held.add(part.len());
            state.parts.push_back(part);
        });
    }

    /// The body is complete, or breaks off.
    pub fn end(&self, is_complete: bool) {
        self.change(|state| state.end = if is_complete { End::Complete } else { End::Broken });
    }

    /// All that has come, if nothing was dropped of it.
    pub fn whole(&self) -> Bytes {
        let state = self.state();
        // As large as it is: a part may be a slice of a larger buffer.
        let mut whole = Vec::with_capacity(state.parts.iter().map(Bytes::len).sum());
        state.parts.iter().for_each(|part| whole.extend_from_slice(part));
        Bytes::from(whole)
    }

    /// Whether nobody waits for it.
    pub fn is_abandoned(&self) -> bool {
        self.state().followers.is_empty()
    }

    /// Whether it goes on without the client that has begun it: others wait for it, or it is to be stored.
    pub fn goes_on(&self) -> bool {
        let state = self.state();
        match state.head {
            // The first has the number 0.
            Head::Awaited => state.followers.keys().any(|number| *number > 0),
            Head::Shared(_) | Head::Stored(_) => true,
            Head::Unshared | Head::Unmodified | Head::Failed(_) => false,
        }
    }

    /// Nobody fetches it any more.
    pub fn give_up(&self) {
        self.change(|state| {
            if let Head::Awaited = state.head {
                state.head = Head::Failed(Refusal::BadResponse);
            }
            if state.end == End::Open {
                state.end = End::Broken;
            }
        });
    }

    /// Drops what all followers have read, and waits until the slowest has less than that to read. For a response that is not stored.
    pub fn poll_room(&self, context: &mut Context<'_>, most: usize) -> Poll<()> {
        let mut state = self.state();
        let end = state.first + state.parts.len();
        let read =
            state.followers.values().filter(|place| !place.is_cut_off).map(|place| place.next).min().unwrap_or(end);
        while state.first < read {
            let part = state.parts.pop_front();
            state.held.remove(part.map_or(0, |part| part.len()));
            state.first += 1;
        }
        if state.parts.iter().map(Bytes::len).sum::<usize>() < most {
            return Poll::Ready(());
        }
        state.fetching = Some(context.waker().clone());
        Poll::Pending
    }

    /// Cuts off those followers that nobody can wait for any longer: the slowest.
    pub fn cut_off_slowest(&self) {
        self.change(|state| {
            let first = state.first;
            state.followers.values_mut().filter(|place| place.next <= first).for_each(|place| place.is_cut_off = true);
        });
    }

    /// Somebody waits for it.
    pub fn follow(self: &Arc<Flight>) -> Follower {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        self.state().followers.insert(number, Position::default());
        Follower { number, flight: self.clone() }
    }
}

/// A request that waits for a flight, then the body of its response.
pub struct Follower {
    flight: Arc<Flight>,
    number: u64,
}

impl Follower {
    /// The head.
    pub fn poll_head(&mut self, context: &mut Context<'_>) -> Poll<Head> {
        let mut state = self.flight.state();
        match &state.head {
            Head::Awaited => {
                state.followers.entry(self.number).or_default().waker = Some(context.waker().clone());
                Poll::Pending
            }
            head => Poll::Ready(head.clone()),
        }
    }

    /// The next part of the body.
    pub fn poll_part(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let mut state = self.flight.state();
        let State { parts, first, end, followers, fetching, .. } = &mut *state;
        let place = followers.entry(self.number).or_default();
        if place.is_cut_off || place.next < *first {
            return Poll::Ready(Some(Err(io::Error::other("the client has read too slowly"))));
        }
        if let Some(part) = parts.get(place.next - *first) {
            place.next += 1;
            if let Some(fetching) = fetching.take() {
                fetching.wake();
            }
            return Poll::Ready(Some(Ok(part.clone())));
        }
        match end {
            End::Open => {
                place.waker = Some(context.waker().clone());
                Poll::Pending
            }
            End::Complete => Poll::Ready(None),
            End::Broken => Poll::Ready(Some(Err(io::Error::other("the response broke off")))),
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut state = self.flight.state();
        state.followers.remove(&self.number);
        if let Some(fetching) = state.fetching.take() {
            fetching.wake();
        }
    }
}
