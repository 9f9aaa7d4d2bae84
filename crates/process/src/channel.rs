//! Messages between supervisor, front and prototypes: a socket pair that keeps packets apart.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use wire::control::{Message, SIZE};
use wire::layout::MAX_DOORS;

/// Descriptors that may be attached to one message.
const MAX_ATTACHED: usize = MAX_DOORS + 1;

/// One end.
pub struct Channel(OwnedFd);

/// What [`Channel::receive`] found.
pub enum Received {
    /// A message and its descriptors.
    Message(Message, Vec<OwnedFd>),
    /// Nothing at the moment.
    Nothing,
    /// The other end is closed.
    Closed,
}

impl Channel {
    /// Both ends, close-on-exec.
    pub fn pair() -> io::Result<(Channel, Channel)> {
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Channel(a), Channel(b)))
    }

    /// Takes over a descriptor inherited from the supervisor.
    pub fn from_fd(descriptor: OwnedFd) -> Channel {
        Channel(descriptor)
    }

    /// Sends a message. An error means that the other end is gone, which its owner notices by other means too.
    pub fn send(&self, message: &Message, attached: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_ATTACHED))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !attached.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(attached)) {
            return Err(io::Error::other("too many descriptors for one message"));
        }
        let bytes = message.encode();
        sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Takes the next message without waiting.
    pub fn receive(&self) -> io::Result<Received> {
        let mut bytes = [0; SIZE];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_ATTACHED))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let size = match recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags) {
            Ok(packet) => packet.bytes,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(Received::Nothing),
            Err(rustix::io::Errno::CONNRESET) => return Ok(Received::Closed),
            Err(error) => return Err(error.into()),
        };
        if size == 0 {
            return Ok(Received::Closed);
        }
        if size != SIZE {
            return Err(io::Error::other(format!("a message of {size} bytes instead of {SIZE}")));
        }
        let mut attached = Vec::new();
        for part in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = part {
                attached.extend(descriptors);
            }
        }
        Ok(Received::Message(Message::decode(&bytes), attached))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<Channel> for OwnedFd {
    fn from(channel: Channel) -> OwnedFd {
        channel.0
    }
}
