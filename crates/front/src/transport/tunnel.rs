//! A WebSocket: after a response with 101 the bytes of client and upstream are passed on as they are, in both directions.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::shared::{Life, told_to_stop};
use crate::upstream::exchange::Switched;
use crate::wrapped::Delivered;

/// Bytes that are read at once.
const PART: usize = 8 * 1024;
/// How long one direction may go on when the other has ended.
const AFTER_END: Duration = Duration::from_secs(5);
/// How long a WebSocket may go on when its listener is removed or the front stops.
const AFTER_STOP: Duration = Duration::from_secs(5);

/// One direction.
#[derive(Default)]
struct Direction {
    /// What was read and has not been written. There is no memory for a direction in which everything is.
    held: Vec<u8>,
    written: usize,
    has_ended: bool,
    is_over: bool,
}

impl Direction {
    /// Passes on what there is. Ready when the direction is over; `moved` counts bytes.
    fn poll<R, W>(
        &mut self,
        context: &mut Context<'_>,
        from: &mut R,
        to: &mut W,
        moved: &mut u64,
    ) -> Poll<io::Result<()>>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        while !self.is_over {
            while self.written < self.held.len() {
                let rest = self.held.get(self.written..).unwrap_or_default();
                let count = ready!(Pin::new(&mut *to).poll_write(context, rest))?;
                if count == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                self.written += count;
                *moved += count as u64;
            }
            (self.held, self.written) = (Vec::new(), 0);
            if self.has_ended {
                ready!(Pin::new(&mut *to).poll_shutdown(context))?;
                self.is_over = true;
                break;
            }
            let mut space = [0; PART];
            let mut buffer = ReadBuf::new(&mut space);
            if Pin::new(&mut *from).poll_read(context, &mut buffer)?.is_pending() {
                // TLS may hold something back.
                ready!(Pin::new(&mut *to).poll_flush(context))?;
                return Poll::Pending;
            }
            match buffer.filled() {
                [] => self.has_ended = true,
                bytes => {
                    // Mostly the other side takes everything at once.
                    let count = match Pin::new(&mut *to).poll_write(context, bytes) {
                        Poll::Ready(count) => count?,
                        Poll::Pending => 0,
                    };
                    *moved += count as u64;
                    self.held = bytes.get(count..).unwrap_or_default().to_vec();
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// Passes bytes on until both sides have ended, one of them fails, nothing moves for long, or its listener or the front ends. `body` counts what
/// the client gets and writes the line of the access log at the end.
pub async fn run<S>(mut client: S, switched: Switched, mut body: Delivered, mut stopped: watch::Receiver<Life>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Switched { upstream, idle, held: _held } = switched;
    let mut upstream = TokioIo::new(upstream);
    let (mut up, mut down) = (Direction::default(), Direction::default());
    let late = sleep(idle);
    let stopping = async {
        told_to_stop(&mut stopped).await;
        sleep(AFTER_STOP).await;
    };
    tokio::pin!(late, stopping);
    let (mut moved, mut sent) = (0, 0);
    let passing = std::future::poll_fn(|context| {
        let before = moved + sent;
        let above = up.poll(context, &mut client, &mut upstream, &mut moved)?;
        let below = down.poll(context, &mut upstream, &mut client, &mut sent)?;
        if above.is_ready() && below.is_ready() {
            return Poll::Ready(Ok::<_, io::Error>(()));
        }
        if moved + sent > before {
            late.as_mut().reset(Instant::now() + idle);
        }
        if (above.is_ready() || below.is_ready()) && late.deadline() > Instant::now() + AFTER_END {
            late.as_mut().reset(Instant::now() + AFTER_END);
        }
        late.as_mut().poll(context).map(Ok)
    });
    // How it ended is not logged: its line in the access log has the bytes and the time.
    tokio::select! {
        _ = passing => {}
        () = &mut stopping => {}
    }
    body.add_sent(sent);
}
