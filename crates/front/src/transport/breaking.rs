//! A body that breaks off for hyper only when all that came before is written: hyper drops what it has not written when a body
//! fails, and a client that knows the length of a response is to get what there is of it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::stream::Stream;
use crate::wrapped::Delivered;

/// The body of a response, for hyper.
pub struct Breaking<S> {
    body: Delivered,
    stream: Stream<S>,
    /// Why it breaks off.
    broken: Option<io::Error>,
}

impl<S> Breaking<S> {
    /// The body of a response on a connection.
    pub fn new(body: Delivered, stream: Stream<S>) -> Breaking<S> {
        Breaking { body, stream, broken: None }
    }
}

impl<S> Body for Breaking<S> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let breaking = self.get_mut();
        if breaking.broken.is_none() {
            match ready!(Pin::new(&mut breaking.body).poll_frame(context)) {
                Some(Err(error)) => breaking.broken = Some(error),
                next => return Poll::Ready(next),
            }
            breaking.stream.wake_when_flushed(context.waker());
        }
        if breaking.stream.is_unflushed() {
            return Poll::Pending;
        }
        Poll::Ready(breaking.broken.take().map(Err))
    }

    fn is_end_stream(&self) -> bool {
        self.broken.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
