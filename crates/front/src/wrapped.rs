//! What goes with the body of a response until it is over, each a wrapper of any body: the permit of its client
//! ([`Permitted`]), its duration ([`Timed`]), its line of the access log ([`Logged`]).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use wire::layout::Usage;

use crate::access::{self, Entry};
use crate::clients::ClientPermit;
use crate::lane::Lane;
use crate::response_body::{ResponseBody, Used};

/// What the phases make: a body, its duration and its client's permit.
pub type Made = Timed<Permitted<ResponseBody>>;
/// What a transport sends: the same, with its line of the access log.
pub type Delivered = Logged<Made>;

/// A body whose client holds a permit until it is over.
pub struct Permitted<B> {
    body: B,
    _permit: Option<ClientPermit>,
}

/// A body whose duration counts for a lane when it is over.
pub struct Timed<B> {
    body: B,
    lane: Option<(Instant, Arc<Lane>)>,
}

/// A body that has a line in the access log when it is over.
pub struct Logged<B: Used> {
    body: B,
    sent: u64,
    entry: Option<Box<Entry>>,
}

impl<B> Permitted<B> {
    /// With the permit, if one is held.
    pub const fn new(body: B, permit: Option<ClientPermit>) -> Permitted<B> {
        Permitted { body, _permit: permit }
    }
}

impl<B> Timed<B> {
    /// Counted by that lane, since that moment.
    pub const fn new(body: B, began: Instant, lane: Arc<Lane>) -> Timed<B> {
        Timed { body, lane: Some((began, lane)) }
    }
}

impl Made {
    /// Of a response that PHP has no part in.
    pub const fn plain(body: ResponseBody) -> Made {
        Timed { body: Permitted::new(body, None), lane: None }
    }
}

impl<B: Used> Logged<B> {
    /// With that entry of the log, if it is wanted.
    pub const fn new(body: B, entry: Option<Box<Entry>>) -> Logged<B> {
        Logged { body, sent: 0, entry }
    }
}

impl<B> Drop for Timed<B> {
    fn drop(&mut self) {
        if let Some((began, lane)) = self.lane.take() {
            lane.durations.note(began.elapsed());
        }
    }
}

impl<B: Used> Drop for Logged<B> {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            access::write(&entry, self.sent, self.body.usage());
        }
    }
}

impl<B: Used> Used for Permitted<B> {
    fn usage(&self) -> Usage {
        self.body.usage()
    }
}

impl<B: Used> Used for Timed<B> {
    fn usage(&self) -> Usage {
        self.body.usage()
    }
}

/// The next bytes of a body, as they come.
type Next = Poll<Option<io::Result<Frame<Bytes>>>>;

impl<B: Body<Data = Bytes, Error = io::Error> + Unpin> Body for Permitted<B> {
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

impl<B: Body<Data = Bytes, Error = io::Error> + Unpin> Body for Timed<B> {
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
