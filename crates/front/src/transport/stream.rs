//! The socket as hyper sees it: one request at a time, and no end of input while a request runs.
//!
//! hyper gets no byte of a request before the current request has its response, and never a part of a head. So pipelined
//! requests are not in hyper's memory when a connection ends, and an unfinished head costs no more memory than its size
//! ([`Inner::held`]), which is freed when the head is complete.
//!
//! A connection ends in different ways:
//!
//! | the client | hyper sees | whoever runs a request of it ([`Client::poll_left`]) |
//! |---|---|---|
//! | has sent the end of its input (FIN) | the end of input, after all complete requests | [`Left::Ended`] |
//! | is gone: a reset, or a write failed | the same; what hyper writes is dropped | [`Left::Gone`] |
//! | takes nothing for `send_timeout` | the end of input at once | [`Left::Gone`] |
//!
//! Without this module hyper would drop the future of a running request in all three cases. Here the future itself decides.

mod written;

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::Sleep;

use super::chunked;
use super::framing::{self, Body, Framed};
use super::held::Held;
use inbound::connection::{Client, Left};
use routing::refusal::Refusal;

/// Bytes that are read at once if hyper has no buffer ready, and that are read ahead while a request runs.
const CHUNK: usize = 4 * 1024;
/// A connection's stream. Clones share it.
pub struct Stream<S>(Arc<Shared<S>>);

impl<S> Clone for Stream<S> {
    fn clone(&self) -> Stream<S> {
        Stream(self.0.clone())
    }
}

struct Shared<S> {
    inner: Mutex<Inner<S>>,
    is_gone: AtomicBool,
}

struct Inner<S> {
    stream: S,
    /// How long the client may take nothing of what is written.
    patience: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
    /// Who waits until hyper has nothing left to write, and flushes.
    unflushed: Option<Waker>,
    /// Bytes that were read from the socket and that hyper may not have yet: an unfinished head, or pipelined requests.
    held: Held,
    /// How many of these bytes are known to have no complete head.
    seen: usize,
    /// Bytes that hyper gets next: a head that was rewritten, or that came in pieces.
    given: Vec<u8>,
    given_to: usize,
    at: At,
    /// What hyper does not know of the request whose head it got last.
    framed: Option<Framed>,
    has_begun: bool,
    has_ended: bool,
    /// Whether the current request is the last of the connection.
    is_last: bool,
    /// Whether the body of the current request is left unread.
    leaves_body: bool,
}

/// What the next byte belongs to.
enum At {
    Head,
    Body(Body),
    /// The body is not framed as its head says.
    Broken,
    /// The connection is about to leave HTTP: hyper gets nothing more.
    Switching,
    /// The connection has left HTTP.
    Raw,
    /// Nothing more is read. A request was refused whose end is unknown, or the client stopped reading.
    Over,
}

impl<S> Stream<S> {
    /// Wraps a socket. `patience`: how long the client may take nothing of what is written.
    pub fn new(stream: S, patience: Duration) -> Stream<S> {
        Stream(Arc::new(Shared {
            inner: Mutex::new(Inner {
                stream,
                patience,
                stalled: None,
                unflushed: None,
                held: Held::default(),
                seen: 0,
                given: Vec::new(),
                given_to: 0,
                at: At::Head,
                framed: None,
                has_begun: false,
                has_ended: false,
                is_last: false,
                leaves_body: false,
            }),
            is_gone: AtomicBool::new(false),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Inner<S>> {
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What hyper does not know of the request that it has just parsed. `None`: hyper has found a request where the framing
    /// has none, and the caller has to close the connection.
    pub fn take_framed(&self) -> Option<Framed> {
        self.lock().framed.take()
    }

    /// Takes no further request.
    pub fn give_up(&self) {
        self.lock().at = At::Over;
    }

    /// The current request or its response has said that it is the last: later requests do not run (RFC 9112 §9.6).
    pub fn set_last(&self) {
        self.lock().is_last = true;
    }

    /// Whether no more than that is still to be read of the body of the current request.
    pub fn has_at_most(&self, bytes: u64) -> bool {
        match self.lock().at {
            At::Head => true,
            At::Body(Body::Length(left)) => left <= bytes,
            _ => false,
        }
    }

    /// The body of the current request is left unread.
    pub fn leave_body(&self) {
        self.lock().leaves_body = true;
    }

    /// Whether it is: no other request can follow.
    pub fn leaves_body(&self) -> bool {
        self.lock().leaves_body
    }

    /// hyper gets nothing more, whatever the client sends: its request is to be answered with 101.
    pub fn leave_http(&self) {
        self.lock().at = At::Switching;
    }

    /// From now on all bytes are handed on as they come. `false`: the client is gone.
    pub fn pass_all(&self) -> bool {
        self.lock().at = At::Raw;
        !self.is_gone()
    }

    /// Whether the client has ever sent anything.
    pub fn has_begun(&self) -> bool {
        self.lock().has_begun
    }

    fn set_gone(&self) {
        self.0.is_gone.store(true, Ordering::Relaxed);
    }

    fn is_gone(&self) -> bool {
        self.0.is_gone.load(Ordering::Relaxed)
    }
}

impl<S: AsyncRead + Unpin> Inner<S> {
    /// Reads up to [`CHUNK`] bytes into `held`. Ready if there are some, or if no more will come.
    fn poll_hold(&mut self, context: &mut Context<'_>, is_gone: &AtomicBool) -> Poll<()> {
        let mut space = [const { MaybeUninit::uninit() }; CHUNK];
        let mut buffer = ReadBuf::uninit(&mut space);
        match ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer)) {
            Ok(()) if !buffer.filled().is_empty() => {
                self.has_begun = true;
                self.held.add(buffer.filled());
            }
            Ok(()) => self.has_ended = true,
            Err(_) => {
                self.has_ended = true;
                is_gone.store(true, Ordering::Relaxed);
            }
        }
        Poll::Ready(())
    }

    /// Removes the first bytes of `held`.
    fn release(&mut self, count: usize) {
        self.seen = 0;
        self.held.drop_first(count);
    }

    /// How many of these bytes belong to the current body. The byte behind them may begin a head.
    fn follow(&mut self, bytes: &[u8]) -> usize {
        let At::Body(body) = &mut self.at else { return 0 };
        let (count, is_over) = match body {
            Body::Length(left) => {
                let count = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= count as u64;
                (count, *left == 0)
            }
            Body::Chunked(scanner) => match scanner.follow(bytes) {
                Ok(count) => (count, scanner.is_at_end()),
                Err(chunked::Broken) => {
                    self.at = At::Broken;
                    return 0;
                }
            },
        };
        if is_over {
            self.at = At::Head;
        }
        count
    }

    fn take_up(&mut self, framed: Framed, body: Body) {
        self.at = match body {
            _ if framed.refusal.is_some() => At::Over,
            Body::Length(0) => At::Head,
            body => At::Body(body),
        };
        self.framed = Some(framed);
        self.leaves_body = false;
    }

    /// Gives hyper what is framed: the next head, or bytes of the current body.
    fn poll_give(
        &mut self,
        context: &mut Context<'_>,
        target: &mut ReadBuf<'_>,
        is_gone: &AtomicBool,
    ) -> Poll<io::Result<()>> {
        loop {
            if self.given_to < self.given.len() {
                let rest = &self.given[self.given_to..];
                let count = rest.len().min(target.remaining());
                target.put_slice(&rest[..count]);
                self.given_to += count;
                if self.given_to == self.given.len() {
                    (self.given, self.given_to) = (Vec::new(), 0);
                }
                return Poll::Ready(Ok(()));
            }
            if self.framed.is_some() {
                // The current request has not been taken up.
                return Poll::Pending;
            }
            match self.at {
                At::Over => return Poll::Ready(Ok(())),
                At::Switching => return Poll::Pending,
                At::Raw if !self.held.bytes().is_empty() => {
                    let count = self.held.bytes().len().min(target.remaining());
                    target.put_slice(&self.held.bytes()[..count]);
                    self.release(count);
                    return Poll::Ready(Ok(()));
                }
                At::Raw if self.has_ended => return Poll::Ready(Ok(())),
                At::Raw => return Pin::new(&mut self.stream).poll_read(context, target),
                At::Broken => {
                    self.at = At::Over;
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "the body breaks its chunks")));
                }
                At::Head if !self.held.bytes().is_empty() => match framing::head(self.held.bytes(), self.seen) {
                    Some(head) => {
                        self.given = head.instead.unwrap_or_else(|| self.held.bytes()[..head.size].to_vec());
                        self.release(head.size);
                        self.take_up(head.framed, head.body);
                    }
                    None if self.has_ended => return Poll::Ready(Ok(())),
                    None => {
                        self.seen = self.held.bytes().len();
                        ready!(self.poll_hold(context, is_gone));
                    }
                },
                At::Body(_) if !self.held.bytes().is_empty() => {
                    let available = self.held.bytes().len().min(target.remaining());
                    let held = std::mem::take(&mut self.held);
                    let count = self.follow(&held.bytes()[..available]);
                    target.put_slice(&held.bytes()[..count]);
                    self.held = held;
                    self.release(count);
                    if count > 0 {
                        return Poll::Ready(Ok(()));
                    }
                }
                _ if self.has_ended => return Poll::Ready(Ok(())),
                _ => {
                    if ready!(self.poll_pass(context, target, is_gone)) {
                        return Poll::Ready(Ok(()));
                    }
                }
            }
        }
    }

    /// Reads from the socket into hyper's memory. Bytes that hyper may not have yet are held. `false`: hyper got nothing.
    fn poll_pass(&mut self, context: &mut Context<'_>, target: &mut ReadBuf<'_>, is_gone: &AtomicBool) -> Poll<bool> {
        let before = target.filled().len();
        if ready!(Pin::new(&mut self.stream).poll_read(context, target)).is_err() {
            is_gone.store(true, Ordering::Relaxed);
            target.set_filled(before);
        }
        let fresh = &target.filled()[before..];
        if fresh.is_empty() {
            self.has_ended = true;
            return Poll::Ready(false);
        }
        self.has_begun = true;
        let mut size = 0;
        if matches!(self.at, At::Head) {
            match framing::head(fresh, 0) {
                Some(head) if head.instead.is_none() => {
                    size = head.size;
                    self.take_up(head.framed, head.body);
                }
                _ => {
                    self.held.add(fresh);
                    target.set_filled(before);
                    return Poll::Ready(false);
                }
            }
        }
        size += self.follow(&fresh[size..]);
        self.held.add(&fresh[size..]);
        target.set_filled(before + size);
        Poll::Ready(size > 0)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stream<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, target: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.lock().poll_give(context, target, &self.0.is_gone)
    }
}

impl<S: AsyncRead + Unpin + Send> Client for Stream<S> {
    fn poll_left(&self, context: &mut Context<'_>) -> Poll<Left> {
        let mut inner = self.lock();
        // hyper itself notices the end of a body. No more than this is held of a client that pipelines.
        while !inner.has_ended && !self.is_gone() && matches!(inner.at, At::Head) && inner.held.bytes().len() < CHUNK {
            ready!(inner.poll_hold(context, &self.0.is_gone));
        }
        match (self.is_gone(), inner.has_ended) {
            (true, _) => Poll::Ready(Left::Gone),
            (false, true) => Poll::Ready(Left::Ended),
            (false, false) => Poll::Pending,
        }
    }

    fn is_gone(&self) -> bool {
        Stream::is_gone(self)
    }
}

impl<S: AsyncRead + Unpin> Stream<S> {
    /// Waits for a complete head. `false`: no complete head will come.
    pub fn poll_head(&self, context: &mut Context<'_>) -> Poll<bool> {
        let mut inner = self.lock();
        while framing::head(inner.held.bytes(), inner.seen).is_none() {
            inner.seen = inner.held.bytes().len();
            if inner.has_ended {
                return Poll::Ready(false);
            }
            ready!(inner.poll_hold(context, &self.0.is_gone));
        }
        Poll::Ready(true)
    }

    /// Whether the first bytes of the connection are the first line of HTTP/2's preface.
    pub fn begins_http2(&self) -> bool {
        self.lock().held.bytes().starts_with(framing::PREFACE)
    }

    /// The socket, and what was read from it. `None`: somebody else has this stream too.
    pub fn into_parts(self) -> Option<(S, Bytes)> {
        let inner = Arc::into_inner(self.0)?.inner.into_inner().unwrap_or_else(PoisonError::into_inner);
        Some((inner.stream, Bytes::copy_from_slice(inner.held.bytes())))
    }

    /// Refuses the unfinished head. `false`: the client has sent no byte of one.
    pub fn refuse(&self, why: Refusal) -> bool {
        let mut inner = self.lock();
        let has_sent = !inner.held.bytes().is_empty();
        let head = framing::refused(inner.held.bytes(), why);
        inner.release(usize::MAX);
        inner.given = head.instead.unwrap_or_default();
        inner.take_up(head.framed, head.body);
        has_sent
    }

    /// Whether the client is known to have sent nothing that has no response, and may go on, or is gone.
    pub fn is_read(&self) -> bool {
        let inner = self.lock();
        self.is_gone() || inner.has_ended || matches!(inner.at, At::Head) && inner.held.bytes().is_empty()
    }

    /// Reads and drops what the client sends, and says how many bytes that were; 0: nothing more comes.
    pub fn poll_discard(&self, context: &mut Context<'_>) -> Poll<usize> {
        let mut space = [const { MaybeUninit::uninit() }; 4 * CHUNK];
        let mut buffer = ReadBuf::uninit(&mut space);
        let mut inner = self.lock();
        inner.release(usize::MAX);
        let result = ready!(Pin::new(&mut inner.stream).poll_read(context, &mut buffer));
        Poll::Ready(result.map_or(0, |()| buffer.filled().len()))
    }

    /// Whether a client that has left has sent a complete request that hyper has not read. That is so if hyper has ended
    /// the conversation for a reason of its own, and no response has said that it was the last.
    pub fn poll_more(&self, context: &mut Context<'_>) -> Poll<bool> {
        let mut inner = self.lock();
        (inner.framed, inner.given, inner.given_to) = (None, Vec::new(), 0);
        while (self.is_gone() || inner.has_ended) && matches!(inner.at, At::Head) && !inner.is_last {
            if let Some(head) = framing::head(inner.held.bytes(), 0) {
                return Poll::Ready(head.framed.refusal.is_none());
            }
            if inner.has_ended {
                break;
            }
            ready!(inner.poll_hold(context, &self.0.is_gone));
        }
        Poll::Ready(false)
    }
}
