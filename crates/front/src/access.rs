//! The access log: a line for each request, when its response is over.
//!
//! Each thread collects lines and writes them when it has 16 KiB, four times a second, and at its end.

mod line;

use std::cell::RefCell;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::sync::Arc;
use std::time::Instant;

use cache::status::Did;
use ipc::layout::Usage;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use inbound::answered_by::AnsweredBy;
use inbound::connection::Connection;
use inbound::forwarded::Client;
use inbound::request::{Head, Request};
use line::Clock;
use routing::reason::Reason;
use routing::settings::LogFormat;

pub use line::{Facts, MAX_FIELD, format, reference};

const FULL: usize = 16 * 1024;
/// Bytes that may wait for a slow reader. More are dropped, and counted.
const MAX_WAITING: usize = 1024 * 1024;
/// Bytes that a pipe takes without blocking when it is ready (POSIX's PIPE_BUF on Linux).
const PIPE_BUF: usize = 4096;

/// One request, until its response is over.
pub struct Entry {
    head: Head,
    connection: Arc<Connection>,
    behind: Option<Client>,
    status: u16,
    began: Instant,
    refused: Option<String>,
    reason: Option<String>,
    upstream: Option<Arc<str>>,
    cache: Option<Did>,
}

impl Entry {
    /// Remembers what the line needs of a request and the head of its response.
    pub fn new<B>(request: Request, response: &http::Response<B>, began: Instant) -> Box<Entry> {
        let Request { head, connection, behind, .. } = request;
        let refused = response.headers().get(routing::refusal::HEADER);
        let reason = response.extensions().get::<Reason>();
        Box::new(Entry {
            head,
            connection,
            behind,
            status: response.status().as_u16(),
            began,
            refused: refused.and_then(|word| word.to_str().ok()).map(str::to_owned),
            upstream: response.extensions().get::<AnsweredBy>().map(|upstream| upstream.0.clone()),
            cache: response.extensions().get::<Did>().copied(),
            reason: reason.map(|reason| String::from_utf8_lossy(reason.words()).into_owned()),
        })
    }

    fn client(&self) -> &str {
        match &self.behind {
            Some(client) if !client.address.is_empty() => &client.address,
            _ => &self.connection.peer.address,
        }
    }
}

struct Log {
    file: Option<File>,
    /// Bytes written at once.
    portion: usize,
    lines: Vec<u8>,
    dropped: usize,
    clock: Clock,
    format: LogFormat,
}

thread_local! {
    static LOG: RefCell<Log> = const { RefCell::new(Log::new()) };
}

/// Sets where and in which format this thread writes; `None`: nowhere. Lines that were collected for another file are
/// written to that file first.
pub fn open(file: Option<File>, format: LogFormat) {
    LOG.with_borrow_mut(|log| {
        log.flush();
        log.format = format;
        let is_file = file.as_ref().and_then(|file| file.metadata().ok()).is_some_and(|metadata| metadata.is_file());
        log.portion = if is_file { MAX_WAITING } else { PIPE_BUF };
        log.file = file;
    });
}

/// Whether there is an access log.
pub fn is_on() -> bool {
    LOG.with_borrow(|log| log.file.is_some())
}

/// Writes the collected lines.
pub fn flush() {
    LOG.with_borrow_mut(Log::flush);
}

/// Adds a line.
pub fn write(entry: &Entry, sent: u64, usage: Usage) {
    LOG.with_borrow_mut(|log| {
        if log.file.is_none() {
            return;
        }
        let facts = Facts {
            client: entry.client(),
            status: entry.status,
            sent,
            took: entry.began.elapsed(),
            usage,
            refused: entry.refused.as_deref(),
            reason: entry.reason.as_deref(),
            upstream: entry.upstream.as_deref(),
            cache: entry.cache,
        };
        line::append(&mut log.lines, &mut log.clock, log.format, &entry.head, &facts);
        if log.lines.len() >= FULL {
            log.flush();
        }
    });
}

impl Log {
    const fn new() -> Log {
        Log { file: None, portion: 0, lines: Vec::new(), dropped: 0, clock: Clock::new(), format: LogFormat::Combined }
    }

    /// Writes what can be written without waiting: a log that nobody reads must not stop the service.
    fn flush(&mut self) {
        let Some(file) = &mut self.file else { return };
        let mut at = 0;
        while at < self.lines.len() {
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            if !matches!(poll(&mut [PollFd::new(&*file, PollFlags::OUT)], Some(&now)), Ok(1..)) {
                break;
            }
            let end = self.lines.len().min(at + self.portion);
            match file.write(&self.lines[at..end]) {
                Ok(count) => at += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // A full disk, or a reader that is gone.
                Err(_) => {
                    self.dropped += self.lines.len() - at;
                    at = self.lines.len();
                }
            }
        }
        self.lines.drain(..at);
        if self.lines.len() > MAX_WAITING {
            self.dropped += self.lines.len();
            self.lines.clear();
        } else if at > 0 && self.dropped > 0 {
            let dropped = self.dropped;
            // Standard error is a pipe to the supervisor, which may be full or closed: then this message is lost.
            let text = format!("access log: {dropped} bytes were dropped because nobody read them\n");
            let _ = std::io::stderr().write_all(text.as_bytes());
            self.dropped = 0;
        }
    }
}
