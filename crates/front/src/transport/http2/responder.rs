//! One stream: its request is run, its response is sent.
//!
//! No part of a body is taken from its source before the client has a window for it, and before the connection has room for
//! it ([`Account::poll_room`]). So a client that gives no window makes nobody read or hold what it does not take, and what has
//! room needs nothing more from the client but that it reads: a stream without a window keeps no other one waiting.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{Buf, Bytes};
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body::Body;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

use super::intake::StreamState;
use super::memory::{Account, Held, Room};
use crate::phases::serve;
use crate::response_body::Paced;
use crate::shared::Shared;
use crate::wrapped::Delivered;
use inbound::http2_limits::{self as limits, Limit};
use inbound::request::Request;

/// Headers that no response of HTTP/2 may have (RFC 9113 §8.2.2).
const FORBIDDEN: [HeaderName; 5] = [
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];
/// Bytes of a body that are taken at once.
const PART: usize = 32 * 1024;

/// A piece of a body on its way to the socket. Its room is free when it is written.
pub struct Piece {
    bytes: Bytes,
    _room: Option<(Room, Unwritten)>,
}

/// The pieces of a stream that are not written yet.
#[derive(Default)]
struct Pieces {
    count: AtomicUsize,
    one_less: Notify,
}

/// One of them.
struct Unwritten(Arc<Pieces>);

impl Unwritten {
    fn of(pieces: &Arc<Pieces>) -> Unwritten {
        pieces.count.fetch_add(1, Ordering::Relaxed);
        Unwritten(pieces.clone())
    }
}

impl Drop for Unwritten {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
        self.0.one_less.notify_one();
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}

/// What a stream needs besides its request.
pub struct Stream {
    /// What all threads share.
    pub shared: Arc<Shared>,
    /// What its connection holds.
    pub account: Arc<Account>,
    /// What it holds itself.
    pub held: Held,
    /// Whether it was reset.
    pub state: Arc<StreamState>,
    /// How long the client may give no window.
    pub patience: Duration,
}

/// How a stream ended before its response was complete.
enum Cut {
    /// The client has reset it, or has broken HTTP/2 on it.
    Reset,
    /// The connection is gone.
    Gone,
    /// The client gave it no window.
    Stalled,
    /// The response broke off.
    Broken,
}

/// What a body gives.
enum Next {
    /// Bytes for which there is a window, with their room.
    Piece(Piece),
    /// The client has taken its window back (RFC 9113 §6.9.2).
    NoWindow,
    /// The end, with trailers.
    Trailers(HeaderMap),
    End,
}

/// What was read from a body.
enum Read {
    Part(Bytes),
    Trailers(HeaderMap),
    End,
}

/// Runs a request and sends its response.
pub async fn run(mut stream: Stream, request: Request, mut respond: SendResponse<Piece>) {
    let has_no_body = request.head.method == http::Method::HEAD;
    limits::requested();
    let (response, was_reset) = stream.response(request, &mut respond).await;
    if was_reset {
        return;
    }
    let (mut head, mut body) = response.into_parts();
    let is_bodiless = has_no_body || [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&head.status);
    complete(&mut head.headers, (!is_bodiless).then(|| body.size_hint().exact()).flatten());
    let is_over = is_bodiless || body.is_end_stream();
    // Extensions are for HTTP/1.
    let mut bare = Response::new(());
    (*bare.status_mut(), *bare.headers_mut()) = (head.status, head.headers);
    // A failure means that the stream or its connection is gone.
    let Ok(mut sender) = respond.send_response(bare, is_over) else { return };
    drop(respond);
    if is_over {
        return;
    }
    body.keep_at_most(PART);
    stream.held.park(body.in_memory());
    let pieces = Arc::default();
    let sent = stream.send(&mut sender, &mut body, &pieces).await;
    if matches!(sent, Err(Cut::Reset | Cut::Gone | Cut::Stalled)) {
        stream.state.set_gone();
    }
    match sent {
        Ok(()) | Err(Cut::Gone) => {}
        Err(Cut::Reset) => stream.account.note_reset(),
        // A stream that its sender drops is reset (CANCEL) behind its head. Pieces that are not written would be dropped too.
        Err(Cut::Broken) => {
            let written = async {
                while pieces.count.load(Ordering::Relaxed) > 0 {
                    pieces.one_less.notified().await;
                }
            };
            let _ = timeout(stream.patience, written).await;
        }
        Err(Cut::Stalled) => {
            limits::acted(Limit::StalledStream);
            sender.send_reset(Reason::CANCEL);
        }
    }
}

/// Removes what HTTP/2 does not have, and adds the length and the date.
fn complete(headers: &mut HeaderMap, length: Option<u64>) {
    for name in &FORBIDDEN {
        headers.remove(name);
    }
    if let Some(length) = length {
        headers.entry(header::CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(length));
    }
    if !headers.contains_key(header::DATE) {
        headers.extend(date().map(|date| (header::DATE, date)));
    }
}

/// The value of Date, made once a second by each thread.
fn date() -> Option<HeaderValue> {
    thread_local!(static MADE: RefCell<Option<(u64, HeaderValue)>> = const { RefCell::new(None) });
    let now = SystemTime::now();
    let second = now.duration_since(UNIX_EPOCH).ok()?.as_secs();
    MADE.with_borrow_mut(|made| match made {
        Some((of, value)) if *of == second => Some(value.clone()),
        _ => {
            let value = HeaderValue::try_from(httpdate::fmt_http_date(now)).ok()?;
            *made = Some((second, value.clone()));
            Some(value)
        }
    })
}

impl Stream {
    /// Runs the request to its response. Also returns whether nobody waits for that any more: a script that the client of a
    /// reset stream has started goes on as it does for a client of HTTP/1 that is gone.
    async fn response(&self, request: Request, respond: &mut SendResponse<Piece>) -> (Response<Delivered>, bool) {
        let (mut was_reset, mut has_turn) = (false, false);
        // The future is large; a stream whose response waits for its client does not hold it.
        let mut serving = Box::pin(serve(&self.shared, request));
        let response = poll_fn(|context| {
            if !was_reset {
                if let Poll::Ready(reason) = respond.poll_reset(context) {
                    was_reset = true;
                    self.state.set_gone();
                    if reason.is_ok() {
                        self.account.note_reset();
                    }
                }
            }
            // The request of a stream that was reset does not wait: it is withdrawn, or runs as it would over HTTP/1.
            if !has_turn && !was_reset && self.account.poll_turn(context).is_pending() {
                return Poll::Pending;
            }
            has_turn = true;
            let polled = serving.as_mut().poll(context);
            if polled.is_pending() && self.state.takes_continue() {
                let mut head = Response::new(());
                *head.status_mut() = StatusCode::CONTINUE;
                // A failure means that the stream is gone, which the next turn finds.
                let _ = respond.send_informational(head);
            }
            polled
        });
        (response.await, was_reset)
    }

    /// Sends a body.
    async fn send(
        &mut self,
        sender: &mut SendStream<Piece>,
        body: &mut Delivered,
        pieces: &Arc<Pieces>,
    ) -> Result<(), Cut> {
        // What was read for a window that has become smaller meanwhile.
        let mut rest = Bytes::new();
        loop {
            self.window(sender, rest.len().max(1)).await?;
            let piece = match self.next_piece(sender, body, &mut rest, pieces).await? {
                Next::Piece(piece) => piece,
                Next::NoWindow => continue,
                Next::Trailers(trailers) => return sender.send_trailers(trailers).map_err(|_| Cut::Gone),
                Next::End => return end(sender),
            };
            self.held.park(body.in_memory() + rest.len());
            let is_last = rest.is_empty() && body.is_end_stream();
            sender.send_data(piece, is_last).map_err(|_| Cut::Gone)?;
            if is_last {
                return Ok(());
            }
        }
    }

    /// Waits until the client has a window for at least one byte of `wanted`.
    async fn window(&self, sender: &mut SendStream<Piece>, wanted: usize) -> Result<(), Cut> {
        sender.reserve_capacity(wanted);
        if sender.capacity() > 0 {
            return Ok(());
        }
        let stalled = self.account.stall();
        let late = sleep_until(Instant::now() + self.patience);
        tokio::pin!(late);
        let granted = poll_fn(|context| {
            loop {
                if let Poll::Ready(cut) = poll_cut(sender, context) {
                    return Poll::Ready(Err(cut));
                }
                match sender.poll_capacity(context) {
                    Poll::Ready(Some(Ok(0))) => {}
                    Poll::Ready(Some(Ok(_))) => return Poll::Ready(Ok(())),
                    Poll::Ready(_) => return Poll::Ready(Err(Cut::Gone)),
                    Poll::Pending => return late.as_mut().poll(context).map(|()| Err(Cut::Stalled)),
                }
            }
        });
        let granted = granted.await;
        match granted {
            Ok(()) => stalled.go_on(),
            Err(Cut::Stalled) if self.account.has_stood_still_for(self.patience) => {
                self.account.end(Limit::StalledConnection);
                return Err(Cut::Gone);
            }
            Err(_) => {}
        }
        granted
    }

    /// The next piece of a body, from `rest` if there is one, or how the body ends.
    async fn next_piece(
        &self,
        sender: &mut SendStream<Piece>,
        body: &mut Delivered,
        rest: &mut Bytes,
        pieces: &Arc<Pieces>,
    ) -> Result<Next, Cut> {
        poll_fn(|context| {
            if let Poll::Ready(cut) = poll_cut(sender, context) {
                return Poll::Ready(Err(cut));
            }
            // While a body has nothing to send, its room is free for other streams.
            let Poll::Ready(mut room) = self.account.poll_room(context) else { return Poll::Pending };
            if rest.is_empty() {
                sender.reserve_capacity(PART);
                let read = poll_part(body, sender.capacity().min(PART), context);
                // And so is the connection's window.
                if !matches!(read, Poll::Ready(Ok(Read::Part(_)))) {
                    sender.reserve_capacity(1);
                }
                match ready!(read)? {
                    Read::Part(bytes) => *rest = bytes,
                    Read::Trailers(trailers) => return Poll::Ready(Ok(Next::Trailers(trailers))),
                    Read::End => return Poll::Ready(Ok(Next::End)),
                }
            }
            let count = sender.capacity().min(rest.len());
            if count == 0 {
                return Poll::Ready(Ok(Next::NoWindow));
            }
            room.fill(count);
            Poll::Ready(Ok(Next::Piece(Piece {
                bytes: rest.split_to(count),
                _room: Some((room, Unwritten::of(pieces))),
            })))
        })
        .await
    }
}

/// Ready with the next bytes of a body, about `most` of them, or with how it ends.
fn poll_part(body: &mut Delivered, most: usize, context: &mut Context<'_>) -> Poll<Result<Read, Cut>> {
    // A read of no bytes would look like the end of a file.
    body.limit_parts(most.max(1));
    loop {
        let Some(frame) = ready!(Pin::new(&mut *body).poll_frame(context)) else { return Poll::Ready(Ok(Read::End)) };
        let Ok(frame) = frame else { return Poll::Ready(Err(Cut::Broken)) };
        match frame.into_data() {
            Ok(bytes) if !bytes.is_empty() => return Poll::Ready(Ok(Read::Part(bytes))),
            Ok(_) => {}
            // Nothing follows trailers.
            Err(frame) => match frame.into_trailers() {
                Ok(trailers) if !trailers.is_empty() => return Poll::Ready(Ok(Read::Trailers(trailers))),
                _ => {}
            },
        }
    }
}

/// Ready if the stream has ended.
fn poll_cut(sender: &mut SendStream<Piece>, context: &mut Context<'_>) -> Poll<Cut> {
    sender.poll_reset(context).map(|reason| if reason.is_ok() { Cut::Reset } else { Cut::Gone })
}

/// Ends a body of which all parts were sent.
fn end(sender: &mut SendStream<Piece>) -> Result<(), Cut> {
    sender.reserve_capacity(0);
    sender.send_data(Piece { bytes: Bytes::new(), _room: None }, true).map_err(|_| Cut::Gone)
}
