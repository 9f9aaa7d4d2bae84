//! From a socket to a TLS stream. A handshake has a time limit, and only so many are under way at once. Who does not speak TLS is
//! counted, and gets no response unless it speaks HTTP.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::server::{Acceptor, ClientHello};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, StartHandshake};

use super::challenges;
use super::secure::Secure;
use super::served::Tls;

/// Type of the record that a handshake begins with (RFC 8446 §5.1).
const HANDSHAKE: u8 = 22;
/// What a client gets that speaks HTTP without TLS.
const IN_CLEAR: &str = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 70\r\n\
    Connection: close\r\nServer: reprise\r\n\r\nThis port takes HTTPS only. Use an address that begins with https://.\n";
/// The alert "unrecognized_name", in the record of a client that has no keys yet (RFC 8446 §6, RFC 6066 §3).
const NO_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];
/// How long, and how many bytes, are read of a client that was told so: a connection with unread bytes would be reset.
const LINGERING: (Duration, usize) = (Duration::from_secs(1), 64 * 1024);

ipc::table! {
    /// What became of a handshake.
    pub enum Handshake: u8 {
        Full, "full": "complete, the client has seen the certificate";
        Resumed, "resumed": "complete, the client has resumed an earlier connection by a ticket";
        Failed, "failed": "no TLS, no common version or cipher, or the client did not take the certificate or has none that is let in";
        Clear, "clear": "the client spoke HTTP without TLS, and got 400";
        Timeout, "timeout": "not complete within tls_handshake_timeout";
        Awaited, "awaited": "the certificate for the name is ordered, and has not been issued yet";
        Challenge, "challenge": "an authority has checked a name before it issues a certificate (`acme-tls/1`)";
    }
}

static COUNTS: [AtomicU64; Handshake::ALL.len()] = [const { AtomicU64::new(0) }; Handshake::ALL.len()];

impl Handshake {
    fn count(self) {
        COUNTS[self as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How many ended so, since this front began.
    pub fn counted(self) -> u64 {
        COUNTS[self as usize].load(Ordering::Relaxed)
    }
}

/// A socket that reads nothing but TLS.
pub struct Socket<S> {
    stream: S,
    first: Option<u8>,
}

impl<S> Socket<S> {
    /// Whether the first byte begins the name of a method.
    fn is_http(&self) -> bool {
        self.first.is_some_and(|byte| byte.is_ascii_uppercase())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Socket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        target: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = target.filled().len();
        let result = ready!(Pin::new(&mut self.stream).poll_read(context, target));
        if self.first.is_none() {
            self.first = target.filled().get(before).copied();
            if self.first.is_some_and(|byte| byte != HANDSHAKE) {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "no TLS")));
            }
        }
        Poll::Ready(result)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Socket<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Why there is no TLS stream.
enum Refused<S> {
    /// The client speaks HTTP without TLS.
    Clear(Socket<S>),
    /// The client speaks something else, or does not go on.
    Failed,
    /// There is no certificate for its name yet.
    Awaited,
    /// It was an authority, which has what it asked for.
    Challenge,
    /// The client has left before its first byte, as those do that only look whether the port is open.
    Left,
}

/// Makes a TLS stream, which may be for HTTP/2 if the server speaks that. `None`: the connection is over.
pub async fn accept<S>(
    tls: &Tls,
    stream: S,
    may_be_http2: bool,
    patience: Duration,
) -> Option<(TlsStream<Socket<S>>, Secure)>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match tokio::time::timeout(patience, attempt(tls, stream, may_be_http2)).await {
        Ok(Ok((stream, secure))) => {
            if secure.is_resumed { Handshake::Resumed } else { Handshake::Full }.count();
            return Some((stream, secure));
        }
        Ok(Err(Refused::Clear(stream))) => {
            Handshake::Clear.count();
            // A client that does not read it in time gets no more.
            let _ = tokio::time::timeout(LINGERING.0, say_in_clear(stream.stream)).await;
        }
        Ok(Err(Refused::Failed)) => Handshake::Failed.count(),
        Ok(Err(Refused::Awaited)) => Handshake::Awaited.count(),
        Ok(Err(Refused::Challenge)) => Handshake::Challenge.count(),
        Ok(Err(Refused::Left)) => {}
        Err(_) => Handshake::Timeout.count(),
    }
    None
}

async fn attempt<S>(tls: &Tls, stream: S, may_be_http2: bool) -> Result<(TlsStream<Socket<S>>, Secure), Refused<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut hello = LazyConfigAcceptor::new(Acceptor::default(), Socket { stream, first: None });
    let mut start = match (&mut hello).await {
        Ok(start) => start,
        Err(_) => {
            return Err(match hello.take_io() {
                Some(socket) if socket.is_http() => Refused::Clear(socket),
                Some(socket) if socket.first.is_none() => Refused::Left,
                _ => Refused::Failed,
            });
        }
    };
    let name = start.client_hello().server_name().map(str::to_ascii_lowercase);
    if let Some(config) = of_challenge(tls, &start.client_hello(), name.as_deref()) {
        return Err(respond_to_authority(start, config).await);
    }
    if tls.is_awaited(name.as_deref()) {
        // A client that does not take it sees the end of the connection.
        let _ = write_all(&mut start.io, &NO_NAME).await;
        return Err(Refused::Awaited);
    }
    let (served, is_named) = tls.choose(name.as_deref()).ok_or(Refused::Failed)?;
    let stream = start.into_stream(served.config(may_be_http2)).await.map_err(|_| Refused::Failed)?;
    let secure = Secure::new(stream.get_ref().1, served, name, is_named).ok_or(Refused::Failed)?;
    Ok((stream, secure))
}

/// What a handshake for a challenge takes, if it is one of a name that is being checked.
fn of_challenge(tls: &Tls, hello: &ClientHello<'_>, name: Option<&str>) -> Option<Arc<ServerConfig>> {
    let is_challenge = hello.alpn()?.any(|protocol| protocol == challenges::PROTOCOL);
    name.filter(|_| is_challenge).and_then(|name| tls.challenge_config(name))
}

/// The authority reads the certificate from the handshake, and the connection ends (RFC 8737 §3).
async fn respond_to_authority<S>(start: StartHandshake<Socket<S>>, config: Arc<ServerConfig>) -> Refused<S>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Ok(mut stream) = start.into_stream(config).await else { return Refused::Failed };
    // The authority may have ended the connection before.
    let _ = poll_fn(|context| Pin::new(&mut stream).poll_shutdown(context)).await;
    Refused::Challenge
}

async fn write_all<S: AsyncWrite + Unpin>(stream: &mut S, mut left: &[u8]) -> io::Result<()> {
    while !left.is_empty() {
        match poll_fn(|context| Pin::new(&mut *stream).poll_write(context, left)).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => left = left.get(count..).unwrap_or_default(),
        }
    }
    Ok(())
}

async fn say_in_clear<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) {
    if write_all(&mut stream, IN_CLEAR.as_bytes()).await.is_err() {
        return;
    }
    let _ = poll_fn(|context| Pin::new(&mut stream).poll_shutdown(context)).await;
    let mut space = [0; 4096];
    let mut more = LINGERING.1;
    while more > 0 {
        let mut buffer = ReadBuf::new(&mut space);
        match poll_fn(|context| Pin::new(&mut stream).poll_read(context, &mut buffer)).await {
            Ok(()) if !buffer.filled().is_empty() => more = more.saturating_sub(buffer.filled().len()),
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::IN_CLEAR;

    #[test]
    fn the_page_in_clear_is_as_long_as_it_says() {
        let (head, body) = IN_CLEAR.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{}", body.len());
    }
}
