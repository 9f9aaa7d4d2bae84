//! What is read of a client for no other reason than that it gets its response: the rest of a body that nobody wants, and what
//! comes behind the last response of a connection. A connection that is closed with unread input is reset, and its client, who
//! sends and does not read yet, would lose a response that says why.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::parts::Parts;
use super::stream::Stream;
use crate::shared::{Life, Shared, told_to_stop};
use inbound::request::{BodyStream, BrokenBody};

/// The rest of a body that is read so that its connection can be used again.
const REST: u64 = 64 * 1024;
/// How long a client may send nothing, how long it is read from in all, and how many bytes: the times are nginx's.
const SILENCE: Duration = Duration::from_secs(5);
const TIME: Duration = Duration::from_secs(30);
const BYTES: usize = 256 * 1024 * 1024;
/// How long a stop waits.
const LAST: Duration = Duration::from_millis(500);
/// One connection of so many may be read from like this at once.
const SHARE: usize = 4;

/// A place among those connections.
struct Place<'a>(&'a Shared);

impl Place<'_> {
    fn take(shared: &Shared) -> Option<Place<'_>> {
        let place = Place(shared);
        let most = shared.settings.limits.max_connections.div_ceil(SHARE);
        (shared.lingering.fetch_add(1, Ordering::Relaxed) < most).then_some(place)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.lingering.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Ends a connection. The client sees the end of what it is sent, and is read from for a while if it has sent what has no response.
pub async fn end<S>(mut stream: Stream<S>, shared: &Shared, mut stopped: watch::Receiver<Life>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    if stream.is_read() {
        return;
    }
    let Some(_place) = Place::take(shared) else { return };
    let reading = async {
        // A failure shows when reading, too.
        let _ = poll_fn(|context| Pin::new(&mut stream).poll_shutdown(context)).await;
        let mut left = BYTES;
        while left > 0 {
            match timeout(SILENCE, poll_fn(|context| stream.poll_discard(context))).await {
                Ok(count) if count > 0 => left = left.saturating_sub(count),
                _ => return,
            }
        }
    };
    let stop = async {
        told_to_stop(&mut stopped).await;
        sleep(LAST).await;
    };
    tokio::select! {
        // A client that has not ended by then is reset.
        _ = timeout(TIME, reading) => {}
        () = stop => {}
    }
}

/// The body of a client's request. If nobody reads it to its end, a small rest is read here. A larger one stays unread, and so does
/// one that the client sends only when it is told to go on.
pub struct ClientBody<S: AsyncRead + Unpin + Send + 'static> {
    body: Option<Parts>,
    stream: Stream<S>,
    waits: bool,
}

impl<S: AsyncRead + Unpin + Send + 'static> ClientBody<S> {
    /// As hyper decodes it. `waits`: the client waits for 100 (Continue).
    pub fn new(body: Incoming, stream: Stream<S>, waits: bool) -> ClientBody<S> {
        ClientBody { body: Some(Parts(body)), stream, waits }
    }
}

impl<S: AsyncRead + Unpin + Send + 'static> BodyStream for ClientBody<S> {
    fn poll_part(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BrokenBody>>> {
        self.waits = false;
        self.body.as_mut().map_or(Poll::Ready(None), |body| body.poll_part(context))
    }

    fn is_complete(&self) -> bool {
        self.body.as_ref().is_none_or(|body| body.is_complete())
    }

    fn length(&self) -> Option<u64> {
        self.body.as_ref().and_then(|body| body.length())
    }
}

impl<S: AsyncRead + Unpin + Send + 'static> Drop for ClientBody<S> {
    fn drop(&mut self) {
        let Some(mut body) = self.body.take().filter(|body| !body.is_complete()) else { return };
        if self.waits || !self.stream.has_at_most(REST) || tokio::runtime::Handle::try_current().is_err() {
            return self.stream.leave_body();
        }
        tokio::spawn(timeout(SILENCE, async move {
            while let Some(Ok(_)) = poll_fn(|context| body.poll_part(context)).await {}
        }));
    }
}
