//! A copy of a response, made while its client gets it: for requests that share no flight.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::entry::Entry;
use super::in_flight::Held;
use super::responses::Responses;

/// The copy, until the body is complete.
pub struct Copy {
    responses: Arc<Responses>,
    /// The entry that it will be; its body comes last.
    entry: Option<Entry>,
    body: Vec<u8>,
    most: usize,
    held: Held,
}

impl Copy {
    /// That has just begun. `most`: bytes of the body; a longer one is not stored.
    pub fn new(responses: Arc<Responses>, entry: Entry, most: usize) -> Copy {
        let held = responses.held();
        Copy { responses, entry: Some(entry), body: Vec::new(), most, held }
    }

    /// Another part of the body.
    pub fn add(&mut self, part: &[u8]) {
        if self.entry.is_none() {
            return;
        }
        if self.body.len() + part.len() > self.most || self.responses.is_crowded() {
            self.entry = None;
            self.held.remove(self.body.len());
            self.body = Vec::new();
            return;
        }
        self.held.add(part.len());
        self.body.extend_from_slice(part);
    }

    /// The body is complete.
    pub fn complete(&mut self) {
        if let Some(entry) = self.entry.take() {
            let mut body = std::mem::take(&mut self.body);
            body.shrink_to_fit();
            store(&self.responses, entry, Bytes::from(body));
        }
    }
}

/// Stores a response with its body, if that is as long as its head says.
pub fn store(responses: &Responses, mut entry: Entry, body: Bytes) -> bool {
    let said = entry.headers.get(http::header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    if said.is_some_and(|said| said.parse() != Ok(body.len())) {
        return false;
    }
    if entry.status != http::StatusCode::NO_CONTENT {
        entry.headers.insert(http::header::CONTENT_LENGTH, body.len().into());
    }
    entry.body = body;
    entry.came = entry.came.min(Instant::now());
    responses.store(Arc::new(entry))
}
