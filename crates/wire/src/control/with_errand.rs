//! Between the supervisor and a child that reads or looks something up for it.

use super::codec::{Malformed, Message, Packet, messages};

/// Child → supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromErrand {
    /// What was found (attached: a file with it, then descriptors that belong to it).
    Found,
}

messages!(FromErrand {
    0x501 => Found {}
});

/// Supervisor → child: nothing. The child knows what it is to do when it is forked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToErrand {}

impl Message for ToErrand {
    fn encode(&self) -> Packet {
        match *self {}
    }

    fn decode(_: &[u8]) -> Result<ToErrand, Malformed> {
        Err(Malformed::Unknown(0))
    }
}
