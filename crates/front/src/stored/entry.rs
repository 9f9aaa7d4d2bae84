//! A stored response.

use std::time::Instant;

use bytes::Bytes;
use cache::key::Key;
use cache::storing::Terms;
use http::StatusCode;
use http::header::HeaderMap;

use crate::reason::Reason;

/// Bytes that each entry has beside key, headers and body.
pub const OVERHEAD: usize = 512;

/// A stored response.
pub struct Entry {
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
    /// What the rules had led to.
    pub outcome: Key,
    /// What its request said in the headers that Vary names.
    pub asked: HeaderMap,
}

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
        OVERHEAD + of(&self.headers) + of(&self.asked) + self.body.len() + self.outcome.as_bytes().len()
    }
}

/// The number of changes when a request began ([`super::responses::Responses::change`]).
#[derive(Clone, Copy)]
pub struct Since(pub u64);
