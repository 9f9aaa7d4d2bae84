//! Connections to upstreams. Each thread keeps those that its runtime drives; one that waits for its next request is closed after a
//! few seconds, because many servers close theirs after five.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;

use super::sending::SendingBody;
use super::upstream_socket::UpstreamSocket;

/// How long a connection waits for its next request.
const IDLE: Duration = Duration::from_secs(4);
/// Connections of one thread to one upstream that wait.
const MAX_IDLE: usize = 32;
/// How long a connection whose response is complete may take to be ready: its request may not be complete.
const SETTLING: Duration = Duration::from_secs(1);
/// Bytes that hyper may buffer of a connection in each direction; the largest head.
const MAX_BUFFER: usize = 64 * 1024;
/// Fields of a response's head.
const MAX_FIELDS: usize = 100;

/// A connection.
pub struct Kept {
    /// Where requests go.
    pub sender: SendRequest<SendingBody>,
    /// Its socket.
    pub socket: UpstreamSocket,
    /// Whether it has served a request before.
    pub is_reused: bool,
}

type Idle = HashMap<String, Vec<(Instant, Kept)>>;

thread_local! {
    static WAITING: RefCell<Idle> = RefCell::new(HashMap::new());
}

/// A connection that waits and can be used.
pub fn take(name: &str) -> Option<Kept> {
    WAITING.with_borrow_mut(|all| {
        let waiting = all.get_mut(name)?;
        // The one that waited least is the most likely to be open.
        while let Some((since, kept)) = waiting.pop() {
            if since.elapsed() < IDLE && kept.sender.is_ready() && kept.socket.is_quiet() {
                return Some(kept);
            }
        }
        None
    })
}

/// How HTTP is spoken with upstreams: within which limits.
pub fn protocol() -> Builder {
    let mut builder = Builder::new();
    builder.max_buf_size(MAX_BUFFER).max_header_size(MAX_BUFFER).max_headers(MAX_FIELDS);
    builder
}

/// Begins to speak HTTP on a new connection.
pub async fn begin(socket: UpstreamSocket) -> hyper::Result<Kept> {
    let (sender, connection) = protocol().handshake(TokioIo::new(socket.clone())).await?;
    // How it ends is known to whoever has a request on it.
    tokio::spawn(connection.with_upgrades());
    Ok(Kept { sender, socket, is_reused: false })
}

/// Gives a connection back whose response is complete.
pub fn give_back(name: String, mut kept: Kept) {
    tokio::spawn(async move {
        let settled = tokio::time::timeout(SETTLING, kept.sender.ready()).await;
        if !matches!(settled, Ok(Ok(()))) {
            return;
        }
        kept.is_reused = true;
        let is_first = WAITING.with_borrow_mut(|all| {
            let is_first = all.values().all(Vec::is_empty);
            let waiting = all.entry(name).or_default();
            if waiting.len() < MAX_IDLE {
                waiting.push((Instant::now(), kept));
            }
            is_first
        });
        if is_first {
            tokio::spawn(close_idle());
        }
    });
}

/// Closes connections that have waited for too long, until none waits.
async fn close_idle() {
    loop {
        tokio::time::sleep(IDLE / 2).await;
        let is_over = WAITING.with_borrow_mut(|all| {
            all.values_mut().for_each(|waiting| waiting.retain(|(since, _)| since.elapsed() < IDLE));
            all.retain(|_, waiting| !waiting.is_empty());
            all.is_empty()
        });
        if is_over {
            return;
        }
    }
}
