//! The body of an upstream's response, as it comes. If it breaks off, the client's response breaks off too.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep};

use super::kept::{self, Kept};
use super::{Place, fields};

/// The body.
pub struct ReceivedBody {
    incoming: Incoming,
    /// The connection, until the body is complete.
    kept: Option<Kept>,
    place: Option<Place>,
    name: String,
    idle: Duration,
    late: Option<Pin<Box<Sleep>>>,
    is_waiting: bool,
}

impl ReceivedBody {
    /// Of a response that came on this connection. `idle`: the time between two parts.
    pub fn new(incoming: Incoming, kept: Kept, place: Place, name: String, idle: Duration) -> ReceivedBody {
        let kept = Some(kept);
        let mut body = ReceivedBody { incoming, kept, place: Some(place), name, idle, late: None, is_waiting: false };
        if body.incoming.is_end_stream() {
            body.end();
        }
        body
    }

    /// The body is complete: the connection may have another request.
    fn end(&mut self) {
        self.late = None;
        self.place = None;
        if let Some(kept) = self.kept.take() {
            kept::give_back(std::mem::take(&mut self.name), kept);
        }
    }

    fn fail(&mut self, why: &dyn std::fmt::Display) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let text = format!("the response broke off: {why}");
        self.place.iter().for_each(|place| place.report(&self.name, &text));
        // The connection ends with its sender.
        (self.kept, self.place) = (None, None);
        Poll::Ready(Some(Err(io::Error::other(text))))
    }

    /// The next part, or the trailers.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match Pin::new(&mut self.incoming).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                self.is_waiting = false;
                let frame = match frame.into_trailers() {
                    Ok(trailers) => Frame::trailers(fields::of_trailers(trailers)),
                    Err(data) => data,
                };
                if self.incoming.is_end_stream() {
                    self.end();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(None) => {
                self.end();
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => self.fail(&super::chain(&error)),
            Poll::Pending => {
                let idle = self.idle;
                let late = self.late.get_or_insert_with(|| Box::pin(sleep(idle)));
                if !std::mem::replace(&mut self.is_waiting, true) {
                    late.as_mut().reset(Instant::now() + idle);
                }
                match Future::poll(late.as_mut(), context) {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(()) => self.fail(&"nothing came within idle_timeout"),
                }
            }
        }
    }

    /// Whether nothing follows.
    pub fn is_end(&self) -> bool {
        self.incoming.is_end_stream()
    }

    /// What is known of its length.
    pub fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
