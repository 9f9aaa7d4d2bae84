//! How often one client may ask for a path: the limits of `rate_limits`, and the rates of rules.
//!
//! Each limit and client has one number, the time at which the client's next request is due if it asks at the limit's rate
//! (GCRA, which is a token bucket without a timer). A request that comes so early that more than `burst` requests would be
//! ahead of their time is refused. With `excess = "delay"` the others wait until they are due.
//!
//! The table has a fixed size ([`CLIENTS`]). A place is found by a hash with a key of this process; of the few places where
//! a client may be, one that is not needed any more is taken, or else that of the client that is least ahead of its time.
//! Such a client begins anew, as if it had not asked yet.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::addresses::network;
use crate::target::is_at;

/// Clients that are known at once, of all limits.
pub const CLIENTS: usize = 65_536;
/// Places where one client may be.
const WAYS: usize = 8;
/// Parts of the table, each with a lock of its own.
const PARTS: usize = 64;
const SETS: usize = CLIENTS / WAYS / PARTS;

static DELAYED: AtomicU64 = AtomicU64::new(0);

/// Requests that have waited for their turn.
pub fn delayed() -> u64 {
    DELAYED.load(Ordering::Relaxed)
}

/// What the limits say to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may go on after this time, which is mostly zero.
    After(Duration),
    /// It is refused. A request after this time would not be.
    Refused(Duration),
}

/// A client and a limit, and when the client's next request is due, in nanoseconds since the table was made.
#[derive(Clone, Copy, Default)]
struct Place {
    who: u64,
    due: u64,
}

type Part = [[Place; WAYS]; SETS];

/// All clients that are ahead of their time.
pub struct Rates {
    began: Instant,
    hasher: RandomState,
    /// Made when a limit is first looked at.
    parts: OnceLock<Vec<Mutex<Box<Part>>>>,
}

impl Default for Rates {
    fn default() -> Rates {
        Rates { began: Instant::now(), hasher: RandomState::new(), parts: OnceLock::new() }
    }
}

/// How often a client may ask for a path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RateLimit {
    /// The path; all below it are meant too. Of a rule: what the rule matches.
    pub path: String,
    /// The methods; empty: all.
    pub methods: Vec<String>,
    /// Time between two requests in the long run, in nanoseconds.
    pub interval_ns: u64,
    /// Requests that may come before their time.
    pub burst: u32,
    /// Whether these wait until it is their time.
    pub is_delayed: bool,
}

impl RateLimit {
    /// Whether it is for this method and path.
    pub fn applies(&self, method: &str, path: &[u8]) -> bool {
        is_at(path, &self.path) && (self.methods.is_empty() || self.methods.iter().any(|known| known == method))
    }

    fn tolerance(&self) -> u64 {
        self.interval_ns.saturating_mul(self.burst.into())
    }
}

/// The key that counts as one client. A client behind a unix socket that names no address has no limit.
fn client(address: &str) -> Option<Result<IpAddr, &str>> {
    match address.parse::<IpAddr>() {
        Ok(address) => Some(Ok(network(address))),
        Err(_) if address == "unix:" => None,
        Err(_) => Some(Err(address)),
    }
}

impl Rates {
    /// Counts a request for each of these limits of an application, unless one of them refuses it: then for none.
    pub fn ask<'l>(
        &self,
        application: &str,
        limits: impl Iterator<Item = &'l RateLimit> + Clone,
        address: &str,
        now: Instant,
    ) -> Verdict {
        let fitting = || limits.clone();
        let Some(client) = client(address).filter(|_| fitting().next().is_some()) else {
            return Verdict::After(Duration::ZERO);
        };
        let now = now.saturating_duration_since(self.began).as_nanos() as u64;
        let who = |limit: &RateLimit| self.hasher.hash_one((application, limit, client)).max(1);
        let late = fitting().filter_map(|limit| {
            let ahead = self.due(who(limit)).saturating_sub(now);
            ahead.checked_sub(limit.tolerance()).filter(|late| *late > 0)
        });
        if let Some(late) = late.max() {
            return Verdict::Refused(Duration::from_nanos(late));
        }
        let mut wait = 0;
        for limit in fitting() {
            let ahead = self.advance(who(limit), now, limit.interval_ns);
            if limit.is_delayed {
                wait = wait.max(ahead);
            }
        }
        if wait > 0 {
            DELAYED.fetch_add(1, Ordering::Relaxed);
        }
        Verdict::After(Duration::from_nanos(wait))
    }

    fn with_set<R>(&self, who: u64, use_it: impl FnOnce(&mut [Place; WAYS]) -> R) -> Option<R> {
        let made = || (0..PARTS).map(|_| Mutex::new(Box::new([[Place::default(); WAYS]; SETS]))).collect();
        let parts: &Vec<Mutex<Box<Part>>> = self.parts.get_or_init(made);
        let mut part = parts.get(who as usize % PARTS)?.lock().unwrap_or_else(PoisonError::into_inner);
        part.get_mut(who as usize / PARTS % SETS).map(use_it)
    }

    /// When the next request of a client is due; 0: it has not asked for long.
    fn due(&self, who: u64) -> u64 {
        let find = |set: &mut [Place; WAYS]| set.iter().find(|place| place.who == who).map(|place| place.due);
        self.with_set(who, find).flatten().unwrap_or(0)
    }

    /// Counts a request. Returns how much ahead of its time it is.
    fn advance(&self, who: u64, now: u64, interval: u64) -> u64 {
        let count = |set: &mut [Place; WAYS]| {
            let known = set.iter().position(|place| place.who == who);
            let least = set.iter().enumerate().min_by_key(|(_, place)| place.due).map(|(number, _)| number);
            let place = &mut set[known.or(least).unwrap_or(0)];
            if place.who != who {
                *place = Place { who, due: 0 };
            }
            let turn = place.due.max(now);
            place.due = turn.saturating_add(interval);
            turn - now
        };
        self.with_set(who, count).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(path: &str, interval_ms: u64, burst: u32) -> RateLimit {
        RateLimit { path: path.into(), interval_ns: interval_ms * 1_000_000, burst, ..RateLimit::default() }
    }

    fn fitting<'l>(
        site: &'l [RateLimit],
        method: &'l str,
        path: &'l str,
    ) -> impl Iterator<Item = &'l RateLimit> + Clone {
        site.iter().filter(move |limit| limit.applies(method, path.as_bytes()))
    }

    /// Asks at a time in milliseconds; the verdict in milliseconds, negative for a refusal.
    fn ask(rates: &Rates, site: &[RateLimit], path: &str, address: &str, at: u64) -> i64 {
        let now = rates.began + Duration::from_millis(at);
        match rates.ask("a", fitting(site, "GET", path), address, now) {
            Verdict::After(time) => time.as_millis() as i64,
            Verdict::Refused(time) => -(time.as_millis() as i64),
        }
    }

    #[test]
    fn so_many_come_at_once_and_then_one_at_a_time() {
        let (rates, site) = (Rates::default(), [limit("/", 100, 2)]);
        let asked: Vec<_> =
            [0, 0, 0, 0, 99, 100, 100, 250].map(|at| ask(&rates, &site, "/x", "192.0.2.1", 1000 + at)).into();
        assert_eq!(asked, [0, 0, 0, -100, -1, 0, -100, 0]);
        // Who has been silent begins anew, and saves no more than the burst.
        let asked: Vec<_> = [0, 0, 0, 0].map(|at| ask(&rates, &site, "/x", "192.0.2.1", 90_000 + at)).into();
        assert_eq!(asked, [0, 0, 0, -100]);
    }

    #[test]
    fn each_client_has_its_own_count() {
        let (rates, site) = (Rates::default(), [limit("/", 1000, 0)]);
        for (address, first) in [
            ("192.0.2.1", true),
            ("192.0.2.2", true),
            ("::ffff:192.0.2.1", false),
            ("2001:db8::1", true),
            ("2001:db8::ffff:2", false),
            ("2001:db8:0:1::1", true),
        ] {
            assert_eq!(ask(&rates, &site, "/", address, 1) == 0, first, "{address}");
        }
        assert!((0..9).all(|_| ask(&rates, &site, "/", "unix:", 1) == 0));
    }

    #[test]
    fn limits_apply_by_path_and_method_and_all_of_them_count() {
        let post = RateLimit { methods: vec!["POST".into()], ..limit("/", 1000, 0) };
        let (rates, site) = (Rates::default(), [limit("/login", 1000, 0), limit("/", 10, 100), post]);
        assert_eq!(
            (ask(&rates, &site, "/login", "1.1.1.1", 0), ask(&rates, &site, "/login/x", "1.1.1.1", 0)),
            (0, -1000)
        );
        assert!((0..9).all(|_| ask(&rates, &site, "/logins", "1.1.1.1", 0) == 0));
        let posted = || rates.ask("a", fitting(&site, "POST", "/y"), "1.1.1.1", rates.began);
        assert_eq!((posted(), posted()), (Verdict::After(Duration::ZERO), Verdict::Refused(Duration::from_secs(1))));
        // A request that one limit refuses does not count for the others: 100 more than one, less 1 + 9 + 1.
        let rest = (0..200).filter(|_| ask(&rates, &site, "/", "1.1.1.1", 0) == 0).count();
        assert_eq!(rest, 101 - 11);
    }

    #[test]
    fn delayed_requests_keep_the_rate() {
        let delayed = RateLimit { is_delayed: true, ..limit("/", 100, 3) };
        let (rates, site) = (Rates::default(), [delayed]);
        let asked: Vec<_> = (0..6).map(|_| ask(&rates, &site, "/", "1.1.1.1", 500)).collect();
        assert_eq!(asked, [0, 100, 200, 300, -100, -100]);
    }

    #[test]
    fn the_table_does_not_grow_and_forgets_those_that_are_least_ahead() {
        let (rates, site) = (Rates::default(), [limit("/", 1000, 5)]);
        for _ in 0..6 {
            assert_eq!(ask(&rates, &site, "/", "192.0.2.1", 0), 0);
        }
        for number in 0..3 * CLIENTS as u32 {
            ask(&rates, &site, "/", &IpAddr::from(number.wrapping_mul(2_654_435_761).to_be_bytes()).to_string(), 0);
        }
        assert!(ask(&rates, &site, "/", "192.0.2.1", 0) < 0, "it is far ahead of its time");
    }
}
