//! Between the supervisor and a child that reads or looks something up for it.

use super::codec::messages;

/// Child → supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromErrand {
    /// What was found (attached: a file with it, then descriptors that belong to it).
    Found,
}

messages!(FromErrand {
    0x501 => Found {}
});

/// Supervisor → child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToErrand {
    /// Begin, with a descriptor (attached). Only a child that waits for one gets it; others know what they are to do when they are forked.
    Begin,
}

messages!(ToErrand {
    0x601 => Begin {}
});
