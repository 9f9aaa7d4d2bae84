//! The channel to the supervisor.

use std::io;
use std::os::fd::BorrowedFd;

/// What the supervisor says.
pub enum Said {
    /// The front has purged responses.
    Purged(Vec<u8>),
    /// Tell what was not told yet, and end.
    End,
    /// Nothing more at the moment.
    Nothing,
}

/// The channel to the supervisor.
pub trait Link: Send + Sync {
    /// What it has said.
    ///
    /// # Errors
    /// It is gone.
    fn receive(&self) -> io::Result<Said>;

    /// Can be read when there is something to receive.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Another node has purged responses.
    ///
    /// # Errors
    /// The supervisor cannot be told.
    fn purge(&self, text: &[u8]) -> io::Result<()>;
}
