//! What children write to their standard error, and PHP to its standard output. It goes through pipes: a script that reopens its standard error must not get hold
//! of this server's log, and nobody but this process waits for the log's reader, which it does not.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use crate::logs::lines::Lines;

/// A pipe that one kind of children writes to.
pub(crate) struct Output {
    /// Read end. This process never waits for it.
    from: OwnedFd,
    /// Write end.
    to: OwnedFd,
    lines: Lines,
}

impl Output {
    fn new(lines: Lines) -> io::Result<Output> {
        let (from, to) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        rustix::fs::fcntl_setfl(&from, rustix::fs::OFlags::NONBLOCK)?;
        Ok(Output { from, to, lines })
    }

    /// Standard error of an application's PHP.
    pub(crate) fn of_errors(name: &str, is_decorated: bool) -> io::Result<Output> {
        Output::new(Lines::of_errors(name, is_decorated))
    }

    /// Standard output of an application's PHP.
    pub(crate) fn of_output(name: &str, is_decorated: bool) -> io::Result<Output> {
        Output::new(Lines::of_output(name, is_decorated))
    }

    /// Nothing in the front may wait for this process either.
    pub(crate) fn of_front() -> io::Result<Output> {
        let output = Output::new(Lines::of_front())?;
        rustix::fs::fcntl_setfl(&output.to, rustix::fs::OFlags::NONBLOCK)?;
        Ok(output)
    }

    /// It may wait: nobody waits for it.
    pub(crate) fn of_acme() -> io::Result<Output> {
        Output::new(Lines::of_acme())
    }

    /// As above.
    pub(crate) fn of_watcher() -> io::Result<Output> {
        Output::new(Lines::of_watcher())
    }

    /// As above.
    pub(crate) fn of_store(name: &str) -> io::Result<Output> {
        Output::new(Lines::of_store(name))
    }

    /// As above.
    pub(crate) fn of_follower(name: &str) -> io::Result<Output> {
        Output::new(Lines::of_follower(name))
    }

    /// The end that children write to.
    pub(crate) fn writer(&self) -> BorrowedFd<'_> {
        self.to.as_fd()
    }

    /// When a line that is not complete is passed on all the same.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.lines.deadline()
    }

    /// The lines that have been written. `bytes` is room for one read.
    pub(crate) fn read(&mut self, bytes: &mut [u8], now: Instant) -> Vec<u8> {
        let mut out = Vec::new();
        // As much as a pipe holds; what is written meanwhile is for the next turn.
        for _ in 0..4 {
            let Ok(count @ 1..) = rustix::io::read(&self.from, &mut *bytes) else { break };
            self.lines.take(bytes.get(..count).unwrap_or_default(), &mut out);
        }
        self.lines.end_overdue(now, &mut out);
        out
    }

    /// The same, when nobody writes any more.
    pub(crate) fn read_last(&mut self, bytes: &mut [u8], now: Instant) -> Vec<u8> {
        let mut out = self.read(bytes, now);
        self.lines.end(&mut out);
        out
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.from.as_fd()
    }
}
