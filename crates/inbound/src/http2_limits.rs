//! The limits by which an HTTP/2 connection or one of its streams ends, with their counters.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

ipc::table! {
    /// Why a stream was refused or reset, or its connection was closed.
    pub enum Limit: u8 {
        Memory, "memory": "streams refused because their connection or the front held too much (`http2_memory`); a client may repeat their requests";
        Resets, "resets": "connections closed because too many of their streams were reset before their responses were complete";
        Frames, "frames": "connections closed because they sent too many frames that carry nothing: PING, SETTINGS, PRIORITY, WINDOW_UPDATE, RST_STREAM, empty DATA, CONTINUATION";
        StalledStream, "stalled-stream": "streams reset because their client gave them no window for `send_timeout`";
        StalledConnection, "stalled-connection": "connections closed because their client gave none of their streams a window for `send_timeout`";
        InTheWay, "in-the-way": "connections closed because the front held as much as `http2_memory` says, and their client had not read for a second";
    }
}

static LIMITS: [AtomicU64; Limit::ALL.len()] = [const { AtomicU64::new(0) }; Limit::ALL.len()];
/// Bytes held by all connections of the front, for clients that do not read.
pub static HELD: AtomicUsize = AtomicUsize::new(0);
static CONNECTIONS: AtomicUsize = AtomicUsize::new(0);
static REQUESTS: AtomicU64 = AtomicU64::new(0);

/// Bytes held by all connections of the front.
pub fn held() -> usize {
    HELD.load(Ordering::Relaxed)
}

/// What the metrics say of HTTP/2.
pub struct Counts {
    /// Connections at the moment.
    pub connections: usize,
    /// Requests since this front began.
    pub requests: u64,
    /// How often each limit has acted.
    pub limits: [(Limit, u64); Limit::ALL.len()],
}

/// The current counts.
pub fn counts() -> Counts {
    Counts {
        connections: CONNECTIONS.load(Ordering::Relaxed),
        requests: REQUESTS.load(Ordering::Relaxed),
        limits: Limit::ALL.map(|limit| (limit, LIMITS[limit as usize].load(Ordering::Relaxed))),
    }
}

/// Counts that a limit has acted.
pub fn acted(limit: Limit) {
    LIMITS[limit as usize].fetch_add(1, Ordering::Relaxed);
}

/// Counts a request.
pub fn requested() {
    REQUESTS.fetch_add(1, Ordering::Relaxed);
}

/// Counts a connection for as long as it lives.
pub struct Open(());

impl Open {
    /// A connection begins.
    pub fn begin() -> Open {
        CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        Open(())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        CONNECTIONS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The table in docs/operations/monitoring.md.
pub fn reference() -> String {
    let row = |one: Limit| format!("| `{}` | {} |\n", one.word(), one.text());
    "| reason | |\n|---|---|\n".to_owned() + &Limit::ALL.map(row).concat()
}
