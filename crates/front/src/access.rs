//! The access log: the combined format, then the duration in seconds.
//!
//! Each thread collects lines and writes them when it has 16 KiB, four times a second, and at its end.

use std::cell::RefCell;
use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hyper::Version;
use hyper::header;
use hyper::http::request::Parts;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::connection::Peer;
use crate::head::Decimal;

const FULL: usize = 16 * 1024;
/// Bytes that wait for a reader; then they are dropped, and counted.
const MAX_WAITING: usize = 1024 * 1024;
/// What a pipe that is ready takes without blocking (POSIX's PIPE_BUF, on Linux).
const PIPE_BUF: usize = 4096;
/// Longest field of a line; the rest is cut off.
const MAX_FIELD: usize = 2048;

/// One request, until its answer is over.
pub struct Entry {
    parts: Parts,
    peer: Arc<Peer>,
    status: u16,
    began: Instant,
}

impl Entry {
    /// Remembers what the line needs.
    pub fn new(parts: Parts, peer: Arc<Peer>, status: u16, began: Instant) -> Box<Entry> {
        Box::new(Entry { parts, peer, status, began })
    }
}

struct Log {
    file: Option<File>,
    /// Bytes written at once.
    portion: usize,
    lines: Vec<u8>,
    dropped: usize,
    second: u64,
    time: String,
}

thread_local! {
    static LOG: RefCell<Log> = const { RefCell::new(Log::new()) };
}

/// Where this thread writes; `None`: nowhere.
pub fn open(file: Option<File>) {
    LOG.with_borrow_mut(|log| {
        let is_file = file.as_ref().and_then(|file| file.metadata().ok()).is_some_and(|metadata| metadata.is_file());
        log.portion = if is_file { MAX_WAITING } else { PIPE_BUF };
        log.file = file;
    });
}

/// Whether lines are wanted at all.
pub fn is_on() -> bool {
    LOG.with_borrow(|log| log.file.is_some())
}

/// Writes what was collected.
pub fn flush() {
    LOG.with_borrow_mut(Log::flush);
}

/// Adds a line.
pub fn write(entry: &Entry, sent: u64) {
    LOG.with_borrow_mut(|log| {
        if log.file.is_none() {
            return;
        }
        log.add(entry, sent);
        if log.lines.len() >= FULL {
            log.flush();
        }
    });
}

impl Log {
    const fn new() -> Log {
        Log { file: None, portion: 0, lines: Vec::new(), dropped: 0, second: 0, time: String::new() }
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
            eprintln!("reprise: access log: {} bytes were dropped because nobody took them", self.dropped);
            self.dropped = 0;
        }
    }

    fn add(&mut self, entry: &Entry, sent: u64) {
        self.update_time();
        let lines = &mut self.lines;
        let parts = &entry.parts;
        lines.extend_from_slice(entry.peer.address.as_bytes());
        lines.extend_from_slice(b" - - [");
        lines.extend_from_slice(self.time.as_bytes());
        lines.extend_from_slice(b"] \"");
        escape(lines, parts.method.as_str().as_bytes());
        lines.push(b' ');
        let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
        escape(lines, target.as_bytes());
        lines.extend_from_slice(if parts.version == Version::HTTP_10 { b" HTTP/1.0\" " } else { b" HTTP/1.1\" " });
        lines.extend_from_slice(Decimal::new(entry.status.into()).digits());
        lines.push(b' ');
        lines.extend_from_slice(Decimal::new(sent).digits());
        lines.extend_from_slice(b" \"");
        for (name, end) in [(header::REFERER, &b"\" \""[..]), (header::USER_AGENT, &b"\" "[..])] {
            match parts.headers.get(name) {
                Some(value) => escape(lines, value.as_bytes()),
                None => lines.push(b'-'),
            }
            lines.extend_from_slice(end);
        }
        let took = entry.began.elapsed();
        lines.extend_from_slice(Decimal::new(took.as_secs()).digits());
        lines.push(b'.');
        // A million more, and its first digit left out: six digits, zeros included.
        lines.extend_from_slice(&Decimal::new(1_000_000 + u64::from(took.subsec_micros())).digits()[1..]);
        lines.push(b'\n');
    }

    fn update_time(&mut self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        if now != self.second || self.time.is_empty() {
            self.second = now;
            // Sun, 06 Nov 1994 08:49:37 GMT
            let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(now));
            self.time = format!("{}/{}/{}:{} +0000", &date[5..7], &date[8..11], &date[12..16], &date[17..25]);
        }
    }
}

/// Quotes, backslashes and everything unprintable as `\xHH`, so that a line stays a line.
fn escape(lines: &mut Vec<u8>, field: &[u8]) {
    for &byte in &field[..field.len().min(MAX_FIELD)] {
        if byte == b'"' || byte == b'\\' || !(0x20..0x7f).contains(&byte) {
            // Writing to memory cannot fail.
            let _ = write!(lines, "\\x{byte:02X}");
        } else {
            lines.push(byte);
        }
    }
}
