//! Messages between the supervisor and its children: a socket pair that keeps packets apart. A channel's type says what it
//! sends and what it receives.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ipc::control::{MAX_PACKET, Message};
use ipc::layout::MAX_DOORS;
use rustix::event::{PollFd, PollFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

use crate::logs::own::log;
use crate::plan::{MAX_FILES, MAX_LISTENERS, MAX_PHARS};

/// Descriptors that may be attached to one message.
/// The front's doors, or a configuration with its executables, its phars and the locks of their directories, those of former releases too, its files, its certificates and its
/// listeners.
const MAX_ATTACHED: usize = MAX_DOORS + 1 + MAX_FILES + MAX_LISTENERS + 3 * MAX_PHARS;

/// Messages that wait for a peer, at most: more than the supervisor sends to one process in minutes. A peer that leaves so many
/// unread does not read at all.
const MAX_BACKLOG: usize = 8192;
/// Descriptors attached to waiting messages, at most.
const MAX_BACKLOG_ATTACHED: usize = 4096;

/// One end. Messages that the other end has no room for wait here, so that sending never blocks.
pub struct Channel<Out, In> {
    socket: OwnedFd,
    backlog: RefCell<Backlog<Out>>,
    receives: PhantomData<fn() -> In>,
}

struct Backlog<Out> {
    messages: VecDeque<(Out, Vec<OwnedFd>)>,
    attached: usize,
    /// A message found no room and was dropped: the peer misses a message.
    is_overrun: bool,
}

/// What [`Channel::receive`] found.
pub enum Received<In> {
    /// A message and its descriptors.
    Message(In, Vec<OwnedFd>),
    /// Nothing at the moment.
    Nothing,
    /// The other end is closed.
    Closed,
}

/// This end, and the other.
pub type Pair<Out, In> = (Channel<Out, In>, Channel<In, Out>);

impl<Out: Message, In: Message> Channel<Out, In> {
    /// Both ends, close-on-exec.
    pub fn pair() -> io::Result<Pair<Out, In>> {
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Channel::from_fd(a), Channel::from_fd(b)))
    }

    /// Takes over a descriptor inherited from the supervisor.
    pub fn from_fd(descriptor: OwnedFd) -> Channel<Out, In> {
        let backlog = Backlog { messages: VecDeque::new(), attached: 0, is_overrun: false };
        Channel { socket: descriptor, backlog: RefCell::new(backlog), receives: PhantomData }
    }

    /// Sends a message, now or when there is room. An error means that the other end is gone, which the owner of this end notices
    /// by other means too.
    pub fn send(&self, message: &Out, attached: &[BorrowedFd<'_>]) -> io::Result<()> {
        // The peer may have read meanwhile: one turn of the supervisor may send many messages.
        self.flush();
        if !self.has_backlog() && self.try_send(message, attached)? {
            return Ok(());
        }
        let mut backlog = self.backlog.borrow_mut();
        let is_full = backlog.messages.len() >= MAX_BACKLOG || backlog.attached + attached.len() > MAX_BACKLOG_ATTACHED;
        if backlog.is_overrun || is_full {
            backlog.is_overrun = true;
            return Ok(());
        }
        let attached: Vec<OwnedFd> = attached.iter().map(BorrowedFd::try_clone_to_owned).collect::<io::Result<_>>()?;
        backlog.attached += attached.len();
        backlog.messages.push_back((*message, attached));
        Ok(())
    }

    /// Whether the peer has left so many messages unread that one had to be dropped. The peer is to be killed then, and replaced.
    pub fn is_overrun(&self) -> bool {
        self.backlog.borrow().is_overrun
    }

    /// What to wait for: messages, and room if some wait for that.
    pub fn watched(&self) -> PollFd<'_> {
        let room = if self.has_backlog() { PollFlags::OUT } else { PollFlags::empty() };
        PollFd::new(&self.socket, PollFlags::IN | room)
    }

    /// Whether messages wait for room.
    fn has_backlog(&self) -> bool {
        !self.backlog.borrow().messages.is_empty()
    }

    /// Sends what waits, as far as there is room.
    pub fn flush(&self) {
        let mut backlog = self.backlog.borrow_mut();
        while let Some((message, attached)) = backlog.messages.front() {
            let count = attached.len();
            let attached: Vec<_> = attached.iter().map(AsFd::as_fd).collect();
            match self.try_send(message, &attached) {
                Ok(false) => return,
                // Sent, or the other end is gone.
                Ok(true) | Err(_) => drop(backlog.messages.pop_front()),
            }
            backlog.attached -= count;
        }
    }

    /// Sends a message and waits for room.
    pub fn send_and_wait(&self, message: &Out, attached: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.transmit(message, attached, SendFlags::NOSIGNAL)
    }

    fn try_send(&self, message: &Out, attached: &[BorrowedFd<'_>]) -> io::Result<bool> {
        match self.transmit(message, attached, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn transmit(&self, message: &Out, attached: &[BorrowedFd<'_>], flags: SendFlags) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_ATTACHED))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !attached.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(attached)) {
            return Err(io::Error::other("too many descriptors for one message"));
        }
        let packet = message.encode();
        sendmsg(&self.socket, &[IoSlice::new(packet.as_bytes())], &mut ancillary, flags)?;
        Ok(())
    }

    /// Takes the next message without waiting. An error may mean that the packet is none of this direction's messages.
    pub fn receive(&self) -> io::Result<Received<In>> {
        // With room for one byte more, a packet that is too long is noticed.
        let mut bytes = [0; MAX_PACKET + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_ATTACHED))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let size = match recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags) {
            Ok(packet) => packet.bytes,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(Received::Nothing),
            Err(rustix::io::Errno::CONNRESET) => return Ok(Received::Closed),
            Err(error) => return Err(error.into()),
        };
        if size == 0 {
            return Ok(Received::Closed);
        }
        let mut attached = Vec::new();
        for part in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = part {
                attached.extend(descriptors);
            }
        }
        let packet = bytes.get(..size).unwrap_or(&bytes);
        let message = In::decode(packet).map_err(|why| io::Error::other(format!("a packet of {size} bytes: {why}")))?;
        Ok(Received::Message(message, attached))
    }
}

impl<Out, In> AsFd for Channel<Out, In> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl<Out, In> From<Channel<Out, In>> for OwnedFd {
    fn from(channel: Channel<Out, In>) -> OwnedFd {
        channel.socket
    }
}

/// Sends a message to a child.
pub(crate) fn send<Out: Message, In: Message>(channel: &Channel<Out, In>, message: &Out, attached: &[BorrowedFd<'_>]) {
    if let Err(error) = channel.send(message, attached) {
        // The peer is dead: it will be reaped, and needs no message.
        if error.raw_os_error() != Some(nix::libc::EPIPE) && error.raw_os_error() != Some(nix::libc::ECONNRESET) {
            log("error", format_args!("a control message cannot be sent: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipc::control::{FromForker, ToForker};

    fn pair() -> Pair<ToForker, FromForker> {
        Channel::pair().unwrap()
    }

    #[test]
    fn what_a_peer_does_not_read_is_bounded() {
        let (ours, theirs) = pair();
        let mut sent = 0;
        while !ours.is_overrun() {
            ours.send(&ToForker::Spawn { slot: sent, epoch: 1 }, &[]).unwrap();
            sent += 1;
        }
        assert!((MAX_BACKLOG..2 * MAX_BACKLOG).contains(&(sent as usize)), "{sent}");
        let mut heard = 0;
        while let Received::Message(message, _) = theirs.receive().unwrap() {
            assert_eq!(message, ToForker::Spawn { slot: heard, epoch: 1 });
            heard += 1;
            ours.flush();
        }
        assert_eq!((heard, ours.is_overrun()), (sent - 1, true));
    }

    #[test]
    fn descriptors_that_wait_are_bounded_too() {
        let (ours, _theirs) = pair();
        let file = crate::peers::boot::file(b"x").unwrap();
        let mut sent = 0;
        while !ours.is_overrun() {
            ours.send(&ToForker::Ping, &[file.as_fd()]).unwrap();
            sent += 1;
        }
        assert!(sent < MAX_BACKLOG_ATTACHED + 1024, "{sent}");
    }

    /// A packet that is no message of this direction is refused, and the next packet is read all the same.
    #[test]
    fn packets_that_are_no_messages_are_refused() {
        let (ours, theirs) = pair();
        let not_ours = ToForker::Ping.encode();
        let packets: [&[u8]; 4] = [b"x", &[0; MAX_PACKET], &[0; 4 * MAX_PACKET], not_ours.as_bytes()];
        for packet in packets {
            rustix::net::send(&theirs, packet, SendFlags::empty()).unwrap();
        }
        theirs.send(&FromForker::Pong, &[]).unwrap();
        for packet in packets {
            assert!(ours.receive().is_err(), "{packet:?}");
        }
        assert!(matches!(ours.receive(), Ok(Received::Message(FromForker::Pong, _))));
    }
}
