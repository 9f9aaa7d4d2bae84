//! The socket over which forkers send what they see.

use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use control::command::Command;
use control::outcome::Outcome;
use control::response;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recv, recvmsg};
use supervisor::os::state;

use crate::exit::{Code, Failure};

/// Bytes of the largest packet, and some more.
pub const PACKET: usize = 64 << 10;

/// The server's response.
pub struct Received {
    /// Names of the lanes, by number.
    pub lanes: Vec<String>,
    pub packets: Packets,
}

/// What forkers send.
pub struct Packets(OwnedFd);

/// Asks for a profile.
pub fn ask(directory: &Path, command: &Command) -> Result<Received, Failure> {
    let failed = |why: &dyn std::fmt::Display| {
        Failure::new(Code::Internal, format!("server of {}", directory.display()), why)
            .hint("is the server running, and does it run as your user?")
    };
    let mut stream = UnixStream::connect(state::socket(directory)).map_err(|error| failed(&error))?;
    stream.write_all(format!("{command}\n").as_bytes()).map_err(|error| failed(&error))?;
    let mut bytes = vec![0; PACKET];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(&stream, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        .map_err(|error| failed(&error))?;
    bytes.truncate(received.bytes);
    let files = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    stream.read_to_end(&mut bytes).map_err(|error| failed(&error))?;
    let outcome: Outcome = response::read(&String::from_utf8_lossy(&bytes)).map_err(|why| failed(&why))?;
    if !outcome.ok {
        return Err(Failure::new(Code::Usage, "profile", outcome.message));
    }
    let lanes = serde_json::from_str(&outcome.message).map_err(|why| failed(&why))?;
    let socket = files.ok_or_else(|| failed(&"the response has no socket"))?;
    Ok(Received { lanes, packets: Packets(socket) })
}

impl Packets {
    /// The next one. `None`: all forkers have ended.
    pub fn next<'a>(&self, buffer: &'a mut [u8]) -> Result<Option<&'a [u8]>, Failure> {
        loop {
            match recv(&self.0, &mut *buffer, RecvFlags::empty()) {
                Ok((_, 0)) => return Ok(None),
                Ok((_, count)) => return Ok(Some(&buffer[..count.min(PACKET)])),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(Failure::new(Code::Internal, "profile", error)),
            }
        }
    }
}
