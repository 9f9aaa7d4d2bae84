//! A stored response.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use cache::storing::{self, Terms};
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::response::Parts;

use super::asking::Place;
use routing::reason::Reason;

/// Bytes that each entry has beside key, headers and body.
pub const OVERHEAD: usize = 512;

/// A stored response.
pub struct Entry {
    /// What it is a response to.
    pub place: Arc<Place>,
    /// Its status.
    pub status: StatusCode,
    /// The reason phrase, if PHP chose one.
    pub reason: Option<Reason>,
    /// Its headers, without those of a connection.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
    /// On which terms it may be used.
    pub terms: Terms,
    /// When it came.
    pub came: Instant,
    /// The generation that made it.
    pub generation: u32,
    /// What its request said in the headers that Vary names.
    pub asked: HeaderMap,
    /// Purges when its request began.
    pub began: Since,
    /// By which names it can be purged.
    pub names: Vec<u64>,
    /// The number of purges up to which it is known to be purged by none.
    pub checked: AtomicU64,
    /// Seconds after `came` at which its URL was last seen to lead to a script.
    pub routed: AtomicU64,
    /// It cannot be renewed by a request of nobody's: the rules lead that elsewhere.
    pub needs_visitor: AtomicBool,
    /// Seconds after `came` before which nobody tries to renew it again.
    pub next_try: AtomicU64,
    /// Names its body, which an entry that renews it has too.
    pub number: u64,
    /// Its compressed bodies that are being made, a bit for each coding ([`super::coded`]).
    pub making: AtomicU8,
    /// Those that are not worth it: no shorter, or not kept.
    pub useless: AtomicU8,
}

/// Numbers of bodies.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

impl Entry {
    /// Seconds since it came.
    pub fn since(&self) -> u64 {
        self.came.elapsed().as_secs()
    }

    /// Bytes that it counts as.
    pub fn bytes(&self) -> usize {
        let of = |headers: &HeaderMap| -> usize {
            headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 64).sum()
        };
        let texts = self.terms.cookies.iter().flatten().chain(&self.terms.tags);
        let terms: usize = texts.map(|name| name.len() + 32).sum();
        let names = 8 * self.names.len() + terms;
        OVERHEAD + of(&self.headers) + of(&self.asked) + self.body.len() + self.place.bytes() + names
    }

    /// A response with this head, which is for that place and may be used on these terms. `asked`: the headers of its request.
    pub fn new(
        place: Arc<Place>,
        began: Since,
        names: Vec<u64>,
        head: &Parts,
        terms: Terms,
        asked: &HeaderMap,
    ) -> Entry {
        Entry {
            place,
            status: head.status,
            reason: head.extensions.get::<Reason>().cloned(),
            headers: kept(&head.headers),
            body: Bytes::new(),
            asked: chosen_by(&terms.nominated, asked),
            terms,
            came: Instant::now(),
            generation: 0,
            began,
            names,
            checked: AtomicU64::new(0),
            routed: AtomicU64::new(0),
            needs_visitor: AtomicBool::new(false),
            next_try: AtomicU64::new(0),
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            making: AtomicU8::new(0),
            useless: AtomicU8::new(0),
        }
    }

    /// Renewing it has failed: for a second nobody tries it again, so that an origin in trouble is asked seldom.
    pub fn was_not_renewed(&self) {
        self.next_try.store(self.since() + 2, Ordering::Relaxed);
    }

    /// Whether it may be tried to renew it.
    pub fn may_be_tried(&self) -> bool {
        self.since() >= self.next_try.load(Ordering::Relaxed)
    }

    /// Its URL leads to a script.
    pub fn is_routed(&self) {
        self.routed.store(self.since(), Ordering::Relaxed);
    }

    /// Whether its URL has led to a script in this second or in the one before.
    pub fn was_routed(&self) -> bool {
        self.since().saturating_sub(self.routed.load(Ordering::Relaxed)) <= 1
    }
}

/// What is stored of the headers of a response. Values are copied: those of a request or a response may be parts of a large buffer.
fn kept(headers: &HeaderMap) -> HeaderMap {
    let mut kept = copy(headers);
    storing::strip(&mut kept);
    if !kept.contains_key(header::DATE) {
        if let Ok(value) = HeaderValue::try_from(httpdate::fmt_http_date(SystemTime::now())) {
            kept.insert(header::DATE, value);
        }
    }
    kept
}

/// Those headers of a request that choose a response.
fn chosen_by(nominated: &[HeaderName], headers: &HeaderMap) -> HeaderMap {
    let mut chosen = HeaderMap::new();
    for name in nominated {
        for value in headers.get_all(name) {
            chosen.append(name, copy_of(value));
        }
    }
    chosen
}

fn copy(headers: &HeaderMap) -> HeaderMap {
    headers.iter().map(|(name, value)| (name.clone(), copy_of(value))).collect()
}

fn copy_of(value: &HeaderValue) -> HeaderValue {
    // It is a value already, so it can be one again.
    HeaderValue::from_bytes(value.as_bytes()).unwrap_or_else(|_| value.clone())
}

/// The number of the last purge when a request began ([`super::purges::Purges`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since(pub u64);

#[cfg(test)]
pub(crate) mod tests {
    use cache::key::Key;
    use cache::variant::Nominated;

    use super::*;

    /// Whatever a response brings is part of what it counts as.
    #[test]
    fn tags_and_cookies_count() {
        let plain = entry().bytes();
        let mut tagged = entry();
        tagged.terms.tags = vec!["x".repeat(1000); 10];
        assert!(tagged.bytes() >= plain + 10_000);
        tagged.terms.cookies = Some(vec!["y".repeat(500)]);
        assert!(tagged.bytes() >= plain + 10_500);
    }

    /// Of `http://a.example/a/b?c`, with nothing in it.
    pub fn entry() -> Entry {
        let place = Place {
            url: Key::new(),
            led: Key::new(),
            outcome: Key::new(),
            host: "a.example".to_owned(),
            target: "/a/b?c".to_owned(),
        };
        let terms = Terms {
            lifetime: 60,
            age: 0,
            stale_while_revalidate: 0,
            stale_if_error: None,
            is_strict: false,
            is_validated: false,
            is_public: true,
            nominated: Nominated::NONE,
            cookies: None,
            tags: Vec::new(),
        };
        Entry {
            place: Arc::new(place),
            status: StatusCode::OK,
            reason: None,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            terms,
            came: Instant::now(),
            generation: 0,
            asked: HeaderMap::new(),
            began: Since(0),
            names: Vec::new(),
            checked: AtomicU64::new(0),
            routed: AtomicU64::new(0),
            needs_visitor: AtomicBool::new(false),
            next_try: AtomicU64::new(0),
            number: 0,
            making: AtomicU8::new(0),
            useless: AtomicU8::new(0),
        }
    }
}
