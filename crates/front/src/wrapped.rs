//! Wrappers around the body of a response, which act when the body is over. [`Holding`] releases what belongs to the
//! request: the client's permit and the measurement of its duration. [`Logged`] writes the line of the access log.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use ipc::layout::Usage;

use crate::access::{self, Entry};
use crate::clients::ClientPermit;
use crate::response_body::{Paced, ResponseBody, Used};
use cache_store::stored::copied::Copy;
use mailbox::lane::Lane;

/// The body that the phases make. If PHP runs the request, the body releases the permit and the measurement at its end.
pub type Made = Holding<ResponseBody, Option<Released>>;
/// The body that a transport sends: the same, with its line of the access log.
pub type Delivered = Logged<Made>;

/// A body that holds something until it is over.
pub struct Holding<B, G> {
    body: B,
    _held: G,
}

/// What PHP's response holds until its body is over, released in this order.
pub struct Released {
    _measurement: Measurement,
    _permit: Option<ClientPermit>,
}

/// Counts for a lane how long a request took, when it is dropped.
struct Measurement {
    began: Instant,
    lane: Arc<Lane>,
}

/// A body that has a line in the access log when it is over.
pub struct Logged<B: Used> {
    body: B,
    sent: u64,
    entry: Option<Box<Entry>>,
}

impl Made {
    /// For a response that the front itself makes.
    pub const fn plain(body: ResponseBody) -> Made {
        Holding { body, _held: None }
    }

    /// For PHP's response: at its end the permit is given back, and the time since `began` is counted for the lane.
    pub const fn of_php(body: ResponseBody, permit: Option<ClientPermit>, began: Instant, lane: Arc<Lane>) -> Made {
        Holding { body, _held: Some(Released { _measurement: Measurement { began, lane }, _permit: permit }) }
    }
}

impl Made {
    /// What is in it.
    pub const fn body(&self) -> &ResponseBody {
        &self.body
    }

    /// With another body, which holds the same.
    pub fn map(self, change: impl FnOnce(ResponseBody) -> ResponseBody) -> Made {
        Holding { body: change(self.body), _held: self._held }
    }

    /// With a copy for the cache.
    pub fn copied(self, copy: Copy) -> Made {
        Holding { body: self.body.copied(copy), _held: self._held }
    }
}

impl<B: Used> Logged<B> {
    /// With an entry for the access log, if there is a log.
    pub const fn new(body: B, entry: Option<Box<Entry>>) -> Logged<B> {
        Logged { body, sent: 0, entry }
    }

    /// Counts bytes that were sent by other means than this body.
    pub fn add_sent(&mut self, bytes: u64) {
        self.sent += bytes;
    }
}

impl Drop for Measurement {
    fn drop(&mut self) {
        self.lane.durations.note(self.began.elapsed());
    }
}

impl<B: Used> Drop for Logged<B> {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            access::write(&entry, self.sent, self.body.usage());
        }
    }
}

impl<B: Used, G> Used for Holding<B, G> {
    fn usage(&self) -> Usage {
        self.body.usage()
    }
}

impl<B: Paced, G> Paced for Holding<B, G> {
    fn in_memory(&self) -> usize {
        self.body.in_memory()
    }

    fn keep_at_most(&mut self, bytes: usize) {
        self.body.keep_at_most(bytes);
    }

    fn limit_parts(&mut self, bytes: usize) {
        self.body.limit_parts(bytes);
    }
}

impl<B: Paced + Used> Paced for Logged<B> {
    fn in_memory(&self) -> usize {
        self.body.in_memory()
    }

    fn keep_at_most(&mut self, bytes: usize) {
        self.body.keep_at_most(bytes);
    }

    fn limit_parts(&mut self, bytes: usize) {
        self.body.limit_parts(bytes);
    }
}

/// The next bytes of a body, as they come.
type Next = Poll<Option<io::Result<Frame<Bytes>>>>;

impl<B: Body<Data = Bytes, Error = io::Error> + Unpin, G: Unpin> Body for Holding<B, G> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Next {
        Pin::new(&mut self.get_mut().body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B: Body<Data = Bytes, Error = io::Error> + Used + Unpin> Body for Logged<B> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Next {
        let logged = self.get_mut();
        let next = Pin::new(&mut logged.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &next {
            logged.sent += frame.data_ref().map_or(0, Bytes::len) as u64;
        }
        next
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
