//! Messages to and from the supervisor. The socket itself belongs to the crate `supervisor`, which the front does not use.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use ipc::control::{FromFront, ToFront};

/// The front's end of the channel to the supervisor.
pub trait Link: Send + Sync {
    /// Sends a message. If the supervisor is gone the message is dropped; the lifeline tells the front that it is gone.
    fn send(&self, message: &FromFront);
    /// Sends a message with descriptors.
    fn send_with(&self, message: &FromFront, attached: &[BorrowedFd<'_>]);
    /// The next message with its descriptors; `None` if no message is there at the moment.
    fn receive(&self) -> io::Result<Option<(ToFront, Vec<OwnedFd>)>>;
    /// The descriptor to wait on for messages.
    fn descriptor(&self) -> BorrowedFd<'_>;
}
