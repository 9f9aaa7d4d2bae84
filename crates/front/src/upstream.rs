//! Servers that respond in the place of PHP: the rule action `upstream`. HTTP/1.1 over TCP or a unix socket.
//!
//! The front may not connect to anything ([`open`]): the supervisor begins each connection, to addresses of the configuration alone.
//! A connection belongs to the thread that asked for it. Nothing that an upstream sends is believed before it is checked.
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | [`exchange`] | a request and the head of its response, with one more try where that is safe |
//! | [`fields`] | target and headers, in both directions |
//! | [`kept`] | connections, and those that wait for a next request |
//! | [`open`] | new connections, by the supervisor |
//! | [`received`] | the body of a response |
//! | [`sending`] | the body of a request |
//! | [`upstream_socket`] | the socket as hyper sees it |

pub mod exchange;
pub mod fields;
mod kept;
mod open;
mod received;
mod sending;
mod upstream_socket;

use std::collections::HashMap;
use std::error::Error;
use std::io::Write;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use exchange::{Order, Switch, pass};
pub use kept::protocol;
pub use open::Openings;
pub use received::ReceivedBody;

use routing::refusal::Refusal;
use routing::rules::rule::Upstream;

/// How often the log says what is wrong with one upstream.
const REPORTED: Duration = Duration::from_secs(10);

/// Numbers of all upstreams together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Requests and WebSockets that upstreams have now.
    pub running: u64,
    /// WebSockets among them.
    pub websockets: u64,
    /// Requests that were passed on.
    pub requests: u64,
    /// Connections that were begun.
    pub connections: u64,
    /// Requests that were sent once more, on a new connection.
    pub retries: u64,
}

static WEBSOCKETS: AtomicU64 = AtomicU64::new(0);
static REQUESTS: AtomicU64 = AtomicU64::new(0);
static CONNECTIONS: AtomicU64 = AtomicU64::new(0);
static RETRIES: AtomicU64 = AtomicU64::new(0);

/// What all threads know of upstreams.
#[derive(Default)]
pub struct Upstreams {
    /// Connections that the supervisor begins.
    pub openings: Openings,
    loads: Mutex<HashMap<String, Arc<Load>>>,
}

/// What is known of one upstream.
#[derive(Default)]
pub struct Load {
    running: AtomicUsize,
    reports: Mutex<Reports>,
}

#[derive(Default)]
struct Reports {
    last: Option<Instant>,
    unsaid: u64,
}

/// A place at an upstream for one request, until it is dropped.
pub struct Place(Arc<Load>);

/// A WebSocket that is counted, until it is dropped.
pub struct Counted(());

impl Upstreams {
    fn load(&self, name: &str) -> Arc<Load> {
        let mut loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        match loads.get(name) {
            Some(load) => load.clone(),
            // One for each name that the configuration has ever had since the start.
            None => loads.entry(name.to_owned()).or_default().clone(),
        }
    }

    /// Takes a place for a request.
    pub fn enter(&self, upstream: &Upstream) -> Result<Place, Refusal> {
        let load = self.load(&upstream.name);
        let place = Place(load.clone());
        if load.running.fetch_add(1, Ordering::AcqRel) >= upstream.connections {
            return Err(Refusal::UpstreamBusy);
        }
        Ok(place)
    }

    /// The numbers now.
    pub fn numbers(&self) -> Numbers {
        let loads = self.loads.lock().unwrap_or_else(PoisonError::into_inner);
        Numbers {
            running: loads.values().map(|load| load.running.load(Ordering::Acquire) as u64).sum(),
            websockets: WEBSOCKETS.load(Ordering::Relaxed),
            requests: REQUESTS.load(Ordering::Relaxed),
            connections: CONNECTIONS.load(Ordering::Relaxed),
            retries: RETRIES.load(Ordering::Relaxed),
        }
    }
}

impl Place {
    /// Says in the log what is wrong with the upstream: the first time, and then every ten seconds at most.
    pub fn report(&self, name: &str, why: &dyn std::fmt::Display) {
        let mut reports = self.0.reports.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if reports.last.is_some_and(|last| now - last < REPORTED) {
            reports.unsaid += 1;
            return;
        }
        reports.last = Some(now);
        let before = match std::mem::take(&mut reports.unsaid) {
            0 => String::new(),
            more => format!(" ({more} more failures since the last message)"),
        };
        // Standard error is a pipe to the supervisor, which may be full: then this message is lost.
        let _ = std::io::stderr().write_all(format!("upstream {name}: {why}{before}\n").as_bytes());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Counted {
    fn new() -> Counted {
        WEBSOCKETS.fetch_add(1, Ordering::Relaxed);
        Counted(())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        WEBSOCKETS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An error with its causes.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_limited_and_given_back() {
        let upstreams = Upstreams::default();
        let one = |name: &str| Upstream { name: name.to_owned(), connections: 2, ..Upstream::default() };
        let held: Vec<_> = (0..2).map(|_| upstreams.enter(&one("a")).ok()).collect();
        assert!(held.iter().all(Option::is_some));
        assert_eq!(upstreams.enter(&one("a")).err(), Some(Refusal::UpstreamBusy));
        assert!(upstreams.enter(&one("b")).is_ok());
        assert_eq!(upstreams.numbers().running, 2);
        drop(held);
        assert!(upstreams.enter(&one("a")).is_ok());
        assert_eq!(upstreams.numbers().running, 0);
    }
}
