//! The body of a request on its way to an upstream: part by part, as the upstream takes it.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

use inbound::request::{BodyStream, RequestBody};
use mailbox::request_body::MIN_RATE;
use routing::refusal::Refusal;

/// How far a body is, for whoever waits for the response.
#[derive(Clone)]
pub struct Progress(Arc<Mutex<State>>);

struct State {
    /// When a part was handed on last.
    last: Instant,
    refusal: Option<Refusal>,
}

impl Progress {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the upstream took a part last.
    pub fn last(&self) -> Instant {
        self.lock().last
    }

    /// Why the body broke off, if it did.
    pub fn refusal(&self) -> Option<Refusal> {
        self.lock().refusal
    }
}

/// Limits of a body.
#[derive(Clone, Copy)]
pub struct SendingLimits {
    /// Bytes; 0: any number.
    pub size: u64,
    /// Time between two parts.
    pub patience: Duration,
}

/// The body.
pub struct SendingBody {
    parts: Option<Box<dyn BodyStream>>,
    limits: SendingLimits,
    read: u64,
    /// How long the client was waited for, the time before `since` alone.
    waited: Duration,
    since: Option<Instant>,
    late: Option<Pin<Box<Sleep>>>,
    progress: Progress,
}

impl SendingBody {
    /// Of a request. Refuses a body whose length is known to be above the limit.
    pub fn new(body: RequestBody, limits: SendingLimits) -> Result<SendingBody, Refusal> {
        let parts = match body {
            RequestBody::None => None,
            RequestBody::Stream(parts) => Some(parts),
        };
        let length = parts.as_ref().and_then(|parts| parts.length());
        if limits.size > 0 && length.is_some_and(|length| length > limits.size) {
            return Err(Refusal::BodyTooLarge);
        }
        let progress = Progress(Arc::new(Mutex::new(State { last: Instant::now(), refusal: None })));
        Ok(SendingBody { parts, limits, read: 0, waited: Duration::ZERO, since: None, late: None, progress })
    }

    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        self.parts.is_none()
    }

    /// Its length, if the client has named one.
    pub fn length(&self) -> Option<u64> {
        self.parts.as_ref().and_then(|parts| parts.length())
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    fn fail(&mut self, why: Refusal) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.progress.lock().refusal = Some(why);
        self.parts = None;
        Poll::Ready(Some(Err(io::Error::other(why.word()))))
    }
}

impl Body for SendingBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let body = self.get_mut();
        let Some(parts) = &mut body.parts else { return Poll::Ready(None) };
        let patience = body.limits.patience;
        match parts.poll_part(context) {
            Poll::Pending => {
                body.since.get_or_insert_with(Instant::now);
                let late = body.late.get_or_insert_with(|| Box::pin(sleep(patience)));
                match Future::poll(late.as_mut(), context) {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(()) => body.fail(Refusal::BodyTimeout),
                }
            }
            Poll::Ready(None) => {
                body.parts = None;
                body.progress.lock().last = Instant::now();
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(_))) => body.fail(Refusal::BadFraming),
            Poll::Ready(Some(Ok(part))) => {
                body.late = None;
                body.waited += body.since.take().map_or(Duration::ZERO, |since| since.elapsed());
                body.read += part.len() as u64;
                if body.limits.size > 0 && body.read > body.limits.size {
                    return body.fail(Refusal::BodyTooLarge);
                }
                // The time in which the upstream took nothing does not count.
                if body.waited > patience + Duration::from_secs(body.read / MIN_RATE) {
                    return body.fail(Refusal::BodyTimeout);
                }
                body.progress.lock().last = Instant::now();
                Poll::Ready(Some(Ok(Frame::data(part))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.parts.as_ref().is_none_or(|parts| parts.is_complete())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.parts {
            None => SizeHint::with_exact(0),
            Some(parts) => parts.length().map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}
