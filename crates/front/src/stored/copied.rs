//! A copy of a response, made while its client gets it: for requests that share no flight.

use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use cache::key::Key;

use super::entry::{Entry, Since};
use super::responses::Responses;

/// The copy, until the body is complete.
pub struct Copy {
    responses: Arc<Responses>,
    url: Key,
    since: Since,
    /// The entry that it will be; its body comes last.
    entry: Option<Entry>,
    body: BytesMut,
    most: usize,
}

impl Copy {
    /// That has just begun. `most`: bytes of the body; a longer one is not stored.
    pub fn new(responses: Arc<Responses>, url: Key, since: Since, entry: Entry, most: usize) -> Copy {
        Copy { responses, url, since, entry: Some(entry), body: BytesMut::new(), most }
    }

    /// Another part of the body.
    pub fn add(&mut self, part: &[u8]) {
        if self.body.len() + part.len() > self.most {
            self.entry = None;
            self.body = BytesMut::new();
        }
        if self.entry.is_some() {
            self.body.extend_from_slice(part);
        }
    }

    /// The body is complete.
    pub fn complete(&mut self) {
        if let Some(entry) = self.entry.take() {
            let body = std::mem::take(&mut self.body).freeze();
            store(&self.responses, &self.url, self.since, entry, body);
        }
    }
}

/// Stores a response with its body, if that is as long as its head says.
pub fn store(responses: &Responses, url: &Key, since: Since, mut entry: Entry, body: Bytes) -> bool {
    let said = entry.headers.get(http::header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    if said.is_some_and(|said| said.parse() != Ok(body.len())) {
        return false;
    }
    entry.body = body;
    entry.came = entry.came.min(Instant::now());
    responses.store(url, entry, since)
}
