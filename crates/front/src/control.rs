//! Messages with the supervisor. The socket itself belongs to the process crate, which the front does not know.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use wire::control::{FromFront, ToFront};

/// The front's end of the channel to the supervisor.
pub trait Link: Send + Sync {
    /// Sends a message. If the supervisor is gone, its lifeline says so; a message to it is no loss then.
    fn send(&self, message: &FromFront);
    /// Sends a message with descriptors.
    fn send_with(&self, message: &FromFront, attached: &[BorrowedFd<'_>]);
    /// The next message with its descriptors; `None` if there is none at the moment.
    fn receive(&self) -> io::Result<Option<(ToFront, Vec<OwnedFd>)>>;
    /// To wait for messages.
    fn descriptor(&self) -> BorrowedFd<'_>;
}
