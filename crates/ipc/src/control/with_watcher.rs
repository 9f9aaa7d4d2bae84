//! Between the supervisor and the process that watches the files of an application under development.

use super::codec::{messages, structure_field};

/// What the watcher has seen since it began. All numbers only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// How many changes there were.
    pub count: u64,
    /// `count` at the last change that PHP's own look at the time of a file may miss, and at the last one of what is served at all.
    pub whole: u64,
    /// `count` at the last change that is not one of a stylesheet alone.
    pub page: u64,
    /// Whether there are files whose changes are not seen.
    pub is_blind: bool,
}

structure_field!(Changes { count, whole, page, is_blind });

/// Supervisor → watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToWatcher {
    /// Read everything that the kernel has to say by now. `Seen` with this ticket follows.
    Fence {
        /// By which the reply names the question.
        ticket: u64,
    },
}

messages!(ToWatcher {
    0xa01 => Fence { ticket }
});

/// Watcher → supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromWatcher {
    /// What has changed so far.
    Seen {
        /// Of the question; 0: nobody has asked.
        ticket: u64,
        /// The numbers.
        changes: Changes,
    },
}

messages!(FromWatcher {
    0xb01 => Seen { ticket, changes }
});
