//! The bytes of one connection: who is at the other end, how long it may stop reading, and the raw head of the request
//! at hand for the checks that a parsed head cannot answer.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::http::request::Parts;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::settings::Network;

/// Bytes of a head kept for a second look.
const KEPT: usize = 32 * 1024;

/// The two ends of a connection, spelled for PHP and the log.
#[derive(Debug)]
pub struct Peer {
    /// Client's address; `unix:` for a unix socket.
    pub address: String,
    /// Client's port; empty for a unix socket.
    pub port: String,
    /// Our address.
    pub server_address: String,
    /// Our port.
    pub server_port: String,
    /// Whether its forwarding headers are believed.
    pub is_proxy: bool,
    /// What does not change between the requests of a connection, ready for [`crate::head`].
    pub variables: (Vec<u8>, u32),
}

impl Peer {
    /// Of a TCP connection.
    pub fn tcp(client: SocketAddr, server: SocketAddr, proxies: &[Network]) -> Peer {
        let (address, server_address) = (client.ip().to_canonical(), server.ip().to_canonical());
        Peer::with_variables(Peer {
            address: address.to_string(),
            port: client.port().to_string(),
            server_address: server_address.to_string(),
            server_port: server.port().to_string(),
            is_proxy: proxies.iter().any(|network| network.contains(address)),
            variables: (Vec::new(), 0),
        })
    }

    /// Of a connection through a unix socket.
    pub fn unix(proxies: &[Network]) -> Peer {
        Peer::with_variables(Peer {
            address: "unix:".to_owned(),
            port: String::new(),
            server_address: "unix:".to_owned(),
            server_port: String::new(),
            is_proxy: proxies.contains(&Network::Unix),
            variables: (Vec::new(), 0),
        })
    }

    /// Of a request that the server makes itself, by the configuration: what it says of a client is believed.
    pub fn ourselves() -> Peer {
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        Peer { is_proxy: true, ..Peer::tcp(here, here, &[]) }
    }

    fn with_variables(mut peer: Peer) -> Peer {
        peer.variables = crate::head::of_connection(&peer);
        peer
    }
}

/// What was read for the current request, and perhaps for others pipelined with it.
#[derive(Default)]
pub struct RawHead(Mutex<Raw>);

#[derive(Default)]
struct Raw {
    bytes: Vec<u8>,
    /// The next bytes that come belong to a later request than all of these.
    is_old: bool,
}

impl RawHead {
    fn lock(&self) -> std::sync::MutexGuard<'_, Raw> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, bytes: &[u8]) {
        let mut raw = self.lock();
        if std::mem::take(&mut raw.is_old) {
            raw.bytes.clear();
        }
        let room = KEPT.saturating_sub(raw.bytes.len());
        raw.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Whether the client has ever sent anything.
    pub fn has_begun(&self) -> bool {
        !self.lock().bytes.is_empty()
    }

    /// A request was answered. What came together with it may hold the next one.
    pub fn restart(&self) {
        self.lock().is_old = true;
    }

    /// Whether the head of this request, as it was read, has no header of that name. hyper removes Content-Length where
    /// there is Transfer-Encoding too; here both are still to be seen. A head that cannot be found is not trusted: it was
    /// pipelined in pieces, which no client does with a body.
    pub fn is_free_of(&self, parts: &Parts, name: &str) -> bool {
        let raw = self.lock();
        let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
        let is_request_line = |line: &[u8]| {
            line.starts_with(parts.method.as_str().as_bytes())
                && memchr::memmem::find(line, target.as_bytes()).is_some()
        };
        let is_named = |line: &[u8]| {
            line.len() > name.len()
                && line[..name.len()].eq_ignore_ascii_case(name.as_bytes())
                && line[name.len()] == b':'
        };
        let lines: Vec<&[u8]> = raw.bytes.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end).collect();
        let mut found = false;
        for (number, _) in lines.iter().enumerate().filter(|(_, line)| is_request_line(line)) {
            found = true;
            let head = lines[number + 1..].iter().take_while(|line| !line.is_empty());
            if head.into_iter().any(|line| is_named(line)) {
                return false;
            }
        }
        found
    }
}

/// A stream whose writes fail if the other end takes nothing for too long.
pub struct Timed<S> {
    stream: S,
    patience: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
    raw: Arc<RawHead>,
}

impl<S> Timed<S> {
    /// Wraps a stream.
    pub fn new(stream: S, patience: Duration, raw: Arc<RawHead>) -> Timed<S> {
        Timed { stream, patience, stalled: None, raw }
    }

    fn watch(&mut self, context: &mut Context<'_>, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if result.is_ready() {
            self.stalled = None;
            return result;
        }
        let patience = self.patience;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(patience)));
        match stalled.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                stalled.as_mut().reset(Instant::now() + patience);
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client stopped reading")))
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Timed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.raw.note(&buffer.filled()[before..]);
        }
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Timed<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.watch(context, result)
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
