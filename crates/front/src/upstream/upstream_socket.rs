//! The socket of a connection to an upstream, as hyper sees it. It counts what has come, so that it is known whether a request may be
//! repeated and whether a response's head, with all informational ones before it, is too large.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use rustix::net::RecvFlags;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// Bytes up to the end of a response's head, with all 1xx responses before it, and what came with it.
const MAX_BEFORE_BODY: usize = 256 * 1024;

/// The socket itself.
pub enum Kind {
    /// TCP.
    Tcp(TcpStream),
    /// A unix socket.
    Unix(UnixStream),
}

/// Clones share it.
#[derive(Clone)]
pub struct UpstreamSocket(Arc<Mutex<Inner>>);

struct Inner {
    kind: Kind,
    /// Bytes that have come since the last request was begun.
    received: usize,
    /// Whether the head of a response is waited for.
    is_limited: bool,
}

impl UpstreamSocket {
    /// Of a socket that is connected.
    pub fn new(kind: Kind) -> UpstreamSocket {
        UpstreamSocket(Arc::new(Mutex::new(Inner { kind, received: 0, is_limited: true })))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request is about to be sent.
    pub fn begin(&self) {
        let mut inner = self.lock();
        (inner.received, inner.is_limited) = (0, true);
    }

    /// The head of its response is there.
    pub fn has_head(&self) {
        self.lock().is_limited = false;
    }

    /// Whether anything has come of the response.
    pub fn has_received(&self) -> bool {
        self.lock().received > 0
    }

    /// Whether nothing has come since the last response: neither the end of the connection nor bytes that nobody asked for.
    pub fn is_quiet(&self) -> bool {
        let inner = self.lock();
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let mut byte = [0_u8; 1];
        let peeked = match &inner.kind {
            Kind::Tcp(stream) => rustix::net::recv(stream, &mut byte, flags),
            Kind::Unix(stream) => rustix::net::recv(stream, &mut byte, flags),
        };
        matches!(peeked, Err(rustix::io::Errno::AGAIN))
    }
}

impl AsyncRead for UpstreamSocket {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, target: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.lock();
        if inner.is_limited && inner.received > MAX_BEFORE_BODY {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "the response's head has no end")));
        }
        let before = target.filled().len();
        ready!(match &mut inner.kind {
            Kind::Tcp(stream) => Pin::new(stream).poll_read(context, target),
            Kind::Unix(stream) => Pin::new(stream).poll_read(context, target),
        })?;
        inner.received = inner.received.saturating_add(target.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for UpstreamSocket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.lock().kind {
            Kind::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Kind::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.lock().kind {
            Kind::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, pieces),
            Kind::Unix(stream) => Pin::new(stream).poll_write_vectored(context, pieces),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A socket holds nothing back.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.lock().kind {
            Kind::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Kind::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
