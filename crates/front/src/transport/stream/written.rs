//! What hyper writes to a connection.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep};

use super::{At, Stream};

impl<S> Stream<S> {
    /// Has `waker` woken when hyper has written all that it has. It is to be called while hyper asks for more.
    pub fn wake_when_flushed(&self, waker: &Waker) {
        self.lock().unflushed = Some(waker.clone());
    }

    /// Whether that has not happened yet.
    pub fn is_unflushed(&self) -> bool {
        self.lock().unflushed.is_some()
    }
}

impl<S: AsyncWrite + Unpin> Stream<S> {
    /// Writes, unless the client is gone. Then the bytes are dropped, so that hyper goes on to the requests that follow.
    fn poll_send(
        &self,
        context: &mut Context<'_>,
        size: usize,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if self.is_gone() {
            return Poll::Ready(Ok(size));
        }
        let mut inner = self.lock();
        let inner = &mut *inner;
        match write(Pin::new(&mut inner.stream), context) {
            Poll::Ready(Ok(count)) => {
                inner.stalled = None;
                Poll::Ready(Ok(count))
            }
            Poll::Ready(Err(_)) => {
                self.set_gone();
                Poll::Ready(Ok(size))
            }
            Poll::Pending => {
                let patience = inner.patience;
                let stalled = inner.stalled.get_or_insert_with(|| Box::pin(sleep(patience)));
                ready!(stalled.as_mut().poll(context));
                stalled.as_mut().reset(Instant::now() + patience);
                inner.at = At::Over;
                self.set_gone();
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client stopped reading")))
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_send(context, bytes.len(), |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let size = pieces.iter().map(|piece| piece.len()).sum();
        self.poll_send(context, size, |stream, context| stream.poll_write_vectored(context, pieces))
    }

    fn is_write_vectored(&self) -> bool {
        self.lock().stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = ready!(self.poll_send(context, 0, |stream, context| stream.poll_flush(context).map_ok(|()| 0)));
        self.lock().unflushed.take().into_iter().for_each(Waker::wake);
        Poll::Ready(flushed.map(|_| ()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_gone() {
            return Poll::Ready(Ok(()));
        }
        let mut inner = self.lock();
        Pin::new(&mut inner.stream).poll_shutdown(context)
    }
}
