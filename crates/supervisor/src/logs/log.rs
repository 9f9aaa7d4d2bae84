//! Lines of the server's log on standard error: time, level, who, text.
//!
//! The program that reads standard error may stop reading, and the supervisor must not wait for it. Lines that cannot be written at
//! once wait in a buffer of [`MAX_WAITING`] bytes. Lines that find no room there are dropped, counted, and reported when there is room
//! again.

use std::collections::VecDeque;
use std::fmt::Arguments;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::net::SendFlags;

/// Bytes that wait for a reader.
const MAX_WAITING: usize = 256 * 1024;
/// How many bytes a pipe that is ready takes without blocking (PIPE_BUF of POSIX, on Linux).
const PIPE_BUF: usize = 4096;
/// How long the end of the process waits for a reader.
const LAST_WORDS: Duration = Duration::from_millis(250);

/// How standard error is written to. Its file description may be shared with other programs, which would not expect it to be
/// O_NONBLOCK.
enum Way {
    /// A pipe or terminal, opened again: a description of our own, which does not block.
    Own(OwnedFd),
    /// A socket: each call says that it does not wait.
    Socket,
    /// A file: it is always ready.
    File,
    /// A pipe that cannot be opened again: it is asked for room before each write.
    Shared,
}

/// What is to be written.
struct Output {
    way: Option<Way>,
    waiting: VecDeque<u8>,
    /// Lines that found no room.
    dropped: u64,
}

static OUTPUT: Mutex<Output> = Mutex::new(Output { way: None, waiting: VecDeque::new(), dropped: 0 });

fn output() -> MutexGuard<'static, Output> {
    OUTPUT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes a line, without waiting. `who` names the part of the server. Lines of a text below its first are indented, so that none
/// can be taken for a line of the log.
pub fn line(level: &str, who: &str, text: Arguments<'_>) {
    let text = text.to_string();
    let lines: Vec<String> = text.split('\n').map(|line| escape(line.as_bytes())).collect();
    let mut all = format!("{} {level} {who}: {}\n", now(), lines[0]);
    for line in &lines[1..] {
        let indent = if line.starts_with("  ") { "" } else { "  " };
        all.push_str(&format!("{indent}{line}\n"));
    }
    write(&all);
}

/// A text in one line: control characters, and bytes that are no UTF-8, as they are written in PHP's strings.
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for one in chunk.valid().chars() {
            match one {
                '\n' => text.push_str("\\n"),
                '\t' => text.push_str("\\t"),
                '\r' => text.push_str("\\r"),
                one if one.is_ascii_control() => text.push_str(&format!("\\x{:02x}", one as u32)),
                // Line ends of Unicode, and what turns the direction of writing, among others.
                one if one.is_control() || matches!(one, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}') => {
                    text.push_str(&format!("\\u{{{:x}}}", one as u32));
                }
                one => text.push(one),
            }
        }
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    }
    text
}

/// The time of a line.
pub fn now() -> String {
    timestamp(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

/// Writes whole lines that are complete with their ends, without waiting.
pub fn write(lines: &str) {
    let mut output = output();
    output.add(lines.as_bytes(), MAX_WAITING);
    output.flush();
}

/// Writes lines of other processes. They may fill three quarters of the buffer: the rest is for the supervisor's own lines.
pub fn pass_on(lines: &[u8]) {
    let mut output = output();
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        output.add(line, MAX_WAITING / 4 * 3);
        if output.waiting.len() > MAX_WAITING / 2 {
            output.flush();
        }
    }
    output.flush();
}

/// Writes waiting lines, as far as there is room.
pub fn flush() {
    output().flush();
}

/// Whether lines wait for room. [`room`] is to be polled then.
pub fn is_waiting() -> bool {
    let output = output();
    !output.waiting.is_empty() || output.dropped > 0
}

/// What to poll for room.
pub fn room() -> PollFd<'static> {
    PollFd::from_borrowed_fd(standard_error(), PollFlags::OUT)
}

/// Writes waiting lines before the process ends; a reader that has stopped is not waited for.
pub fn finish() {
    let deadline = Instant::now() + LAST_WORDS;
    flush();
    while is_waiting() && Instant::now() < deadline {
        let pause = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        let _ = poll(&mut [room()], Some(&pause));
        flush();
    }
}

fn standard_error() -> BorrowedFd<'static> {
    rustix::stdio::stderr()
}

impl Way {
    fn find() -> Way {
        let Ok(status) = rustix::fs::fstat(standard_error()) else { return Way::Shared };
        match FileType::from_raw_mode(status.st_mode) {
            FileType::Fifo | FileType::CharacterDevice => {
                own_description(standard_error()).map_or(Way::Shared, Way::Own)
            }
            FileType::Socket => Way::Socket,
            _ => Way::File,
        }
    }

    fn write(&self, bytes: &[u8]) -> rustix::io::Result<usize> {
        match self {
            Way::Own(file) => rustix::io::write(file, bytes),
            Way::Socket => rustix::net::send(standard_error(), bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL),
            Way::File => rustix::io::write(standard_error(), bytes),
            Way::Shared => {
                let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
                match poll(&mut [room()], Some(&at_once)) {
                    Ok(1..) => rustix::io::write(standard_error(), &bytes[..bytes.len().min(PIPE_BUF)]),
                    _ => Err(rustix::io::Errno::AGAIN),
                }
            }
        }
    }
}

/// The same pipe or terminal by a description that nobody else has and that does not block. Of anything else, or where this
/// user may not: an error.
pub fn own_description(descriptor: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let status = rustix::fs::fstat(descriptor)?;
    if !matches!(FileType::from_raw_mode(status.st_mode), FileType::Fifo | FileType::CharacterDevice) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&descriptor.as_fd()));
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

impl Output {
    /// Takes lines if no more than `most` bytes wait then, or counts them.
    fn add(&mut self, lines: &[u8], most: usize) {
        if self.waiting.len() + lines.len() > most || self.dropped > 0 && !self.report() {
            self.dropped += lines.iter().filter(|byte| **byte == b'\n').count().max(1) as u64;
            return;
        }
        self.waiting.extend(lines);
    }

    /// Reports how many lines were dropped, in the place of those. False: there is no room for that either. Half of the buffer has to
    /// be free first, so that not every other line is such a report.
    fn report(&mut self) -> bool {
        if self.waiting.len() > MAX_WAITING / 2 {
            return false;
        }
        let count = std::mem::take(&mut self.dropped);
        let text = format!("{} warning supervisor: {count} lines were dropped here because nobody read them\n", now());
        self.waiting.extend(text.as_bytes());
        true
    }

    fn flush(&mut self) {
        let way = self.way.get_or_insert_with(Way::find);
        loop {
            let (bytes, _) = self.waiting.as_slices();
            if bytes.is_empty() {
                break;
            }
            match way.write(bytes) {
                Ok(count @ 1..) => drop(self.waiting.drain(..count)),
                Err(rustix::io::Errno::AGAIN) => return,
                Err(rustix::io::Errno::INTR) => {}
                // The reader is gone, or a disk is full: there is nowhere to report that.
                Ok(0) | Err(_) => {
                    self.waiting.clear();
                    self.dropped = 0;
                    return;
                }
            }
        }
        if self.dropped > 0 && self.report() {
            self.flush();
        }
    }
}

/// `2026-01-31T23:59:59Z`.
pub fn timestamp(seconds: u64) -> String {
    ipc::date::timestamp(seconds).map(char::from).iter().collect()
}
