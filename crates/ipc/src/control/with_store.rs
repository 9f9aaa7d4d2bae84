//! Between the supervisor and a process that talks to the store of an application's data cache.

use super::codec::messages;

/// Supervisor → process that talks to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToStore {
    /// The front has purged responses (attached: a sealed file with the purge). Other nodes are to do the same.
    Purged,
    /// Tell other nodes what they were not told yet, and end.
    End,
}

messages!(ToStore {
    0x801 => Purged {}
    0x802 => End {}
});

/// Process that talks to a store → supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromStore {
    /// Another node has purged responses (attached: a sealed file with the purge).
    Purged,
}

messages!(FromStore {
    0x901 => Purged {}
});
