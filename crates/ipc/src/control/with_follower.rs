//! Between the supervisor and a process that follows the pool of an application's releases.

use super::codec::messages;

/// Supervisor → process that follows a pool. `ticket` is that of the order which this is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToFollower {
    /// The generation of a release is booted and warmed, and waits.
    Booted {
        /// Of which order.
        ticket: u64,
    },
    /// It cannot serve (attached: a file with the reason).
    BootFailed {
        /// Of which order.
        ticket: u64,
    },
    /// New requests go to it.
    SwitchedTo {
        /// Of which order.
        ticket: u64,
    },
}

messages!(ToFollower {
    0xc01 => Booted { ticket }
    0xc02 => BootFailed { ticket }
    0xc03 => SwitchedTo { ticket }
});

/// Process that follows a pool → supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromFollower {
    /// Boot a generation of a release, and hold it (attached: a file with its id).
    Boot {
        /// Names this order.
        ticket: u64,
    },
    /// Let new requests go to it.
    SwitchTo {
        /// Which order.
        ticket: u64,
    },
    /// Give it up.
    GiveUpBoot {
        /// Which order.
        ticket: u64,
    },
    /// This server is not to get requests (attached: a file with the reason; if it is empty, it is again).
    Unfit,
}

messages!(FromFollower {
    0xd01 => Boot { ticket }
    0xd02 => SwitchTo { ticket }
    0xd03 => GiveUpBoot { ticket }
    0xd04 => Unfit {}
});
