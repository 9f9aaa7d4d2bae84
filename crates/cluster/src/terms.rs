//! How things are called in a store, for how long they stay there, and how it fails.

use std::fmt;

/// Values without an end lie in the store for so long, in milliseconds: thirty days.
pub const LONGEST: u64 = 30 * 24 * 3600 * 1000;
/// Messages that the bus keeps, about.
pub const BUS_LENGTH: usize = 100_000;

/// The store has not done what it was asked for. The connection is not used again.
#[derive(Debug)]
pub struct Failed(pub String);

impl fmt::Display for Failed {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What a store writes comes to the log.
        let text: String = self.0.chars().filter(|one| !one.is_control()).take(300).collect();
        to.write_str(&text)
    }
}

impl From<redis::RedisError> for Failed {
    fn from(error: redis::RedisError) -> Failed {
        Failed(error.to_string())
    }
}

impl From<std::io::Error> for Failed {
    fn from(error: std::io::Error) -> Failed {
        Failed(error.to_string())
    }
}

/// The kinds of names in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// A value.
    Value,
    /// Who computes it, or a lock.
    Lease,
    /// A value that no change of others concerns, such as a session.
    Kept,
}

impl Name {
    /// The letter in the name.
    pub fn letter(self) -> u8 {
        match self {
            Name::Value => b'v',
            Name::Lease => b'l',
            Name::Kept => b's',
        }
    }
}
