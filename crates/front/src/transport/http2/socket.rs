//! The socket as h2 sees it: the bytes that were read before h2 was there come first, frames are followed, the end of the input
//! comes when nothing can be lost by it ([`super::input`]), and a client that takes nothing of what is written is gone after a
//! while.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::frames::Frames;
use super::input::Input;
use super::memory::Account;
use inbound::http2_limits::Limit;

/// The socket of a connection.
pub struct Socket<S> {
    socket: S,
    begun: Bytes,
    /// Whether nobody reads what is written.
    is_gone: bool,
    frames: Frames,
    account: Arc<Account>,
    input: Arc<Input>,
    /// How long the client may take nothing of what is written.
    patience: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Socket<S> {
    /// `begun`: what was read before.
    pub fn new(socket: S, begun: Bytes, account: Arc<Account>, input: Arc<Input>, patience: Duration) -> Socket<S> {
        Socket { socket, begun, is_gone: false, frames: Frames::default(), account, input, patience, stalled: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Socket<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, target: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // The task that reads sees that the connection is to end, as soon as there is nothing to read.
        if this.account.has_end() {
            return Poll::Pending;
        }
        let before = target.filled().len();
        if this.input.has_ended() {
            // An error is no more than an end, too.
            return if this.input.end() { Poll::Ready(Ok(())) } else { Poll::Pending };
        }
        if this.begun.is_empty() {
            let read = ready!(Pin::new(&mut this.socket).poll_read(context, target));
            if read.is_err() || target.filled().len() == before {
                // The task of the connection takes what h2 has, and asks again.
                return if this.input.end() { Poll::Ready(Ok(())) } else { Poll::Pending };
            }
        } else {
            let count = this.begun.len().min(target.remaining());
            target.put_slice(&this.begun[..count]);
            this.begun.advance(count);
        }
        if this.frames.follow(&target.filled()[before..]).is_err() {
            this.account.end(Limit::Frames);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> Socket<S> {
    /// Writes, unless the client is gone. Then the bytes are dropped, so that what it has sent before is still read.
    fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        size: usize,
        send: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if self.is_gone {
            return Poll::Ready(Ok(size));
        }
        match send(Pin::new(&mut self.socket), context) {
            Poll::Ready(Ok(count)) => {
                self.stalled = None;
                self.frames.wrote(count);
                Poll::Ready(Ok(count))
            }
            Poll::Ready(Err(_)) => {
                self.is_gone = true;
                Poll::Ready(Ok(size))
            }
            Poll::Pending => {
                let patience = self.patience;
                ready!(self.stalled.get_or_insert_with(|| Box::pin(sleep(patience))).as_mut().poll(context));
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client stopped reading")))
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Socket<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().poll_send(context, bytes.len(), |socket, context| socket.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let size = pieces.iter().map(|piece| piece.len()).sum();
        self.get_mut().poll_send(context, size, |socket, context| socket.poll_write_vectored(context, pieces))
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_send(context, 0, |socket, context| socket.poll_flush(context).map_ok(|()| 0)).map_ok(|_| ())
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.is_gone { Poll::Ready(Ok(())) } else { Pin::new(&mut this.socket).poll_shutdown(context) }
    }
}
