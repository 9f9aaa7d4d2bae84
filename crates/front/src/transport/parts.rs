//! The body of a request, as hyper decodes it.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Incoming};

use inbound::request::{BodyStream, BrokenBody, RequestBody};

/// The body of a request that the server itself makes.
pub fn body_of(body: Incoming) -> RequestBody {
    if body.is_end_stream() { RequestBody::None } else { RequestBody::Stream(Box::new(Parts(body))) }
}

/// Its parts.
pub struct Parts(pub Incoming);

impl BodyStream for Parts {
    fn poll_part(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BrokenBody>>> {
        loop {
            // hyper ends a body by its length only with the next request, if the response has ended before the body.
            if self.is_complete() {
                return Poll::Ready(None);
            }
            let Some(frame) = ready!(Pin::new(&mut self.0).poll_frame(context)) else { return Poll::Ready(None) };
            let Ok(frame) = frame else { return Poll::Ready(Some(Err(BrokenBody))) };
            // Trailers are not passed on.
            match frame.into_data() {
                Ok(data) if !data.is_empty() => return Poll::Ready(Some(Ok(data))),
                _ => {}
            }
        }
    }

    fn is_complete(&self) -> bool {
        self.0.is_end_stream()
    }

    fn length(&self) -> Option<u64> {
        self.0.size_hint().exact()
    }
}
