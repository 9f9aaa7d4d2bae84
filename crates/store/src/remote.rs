//! What is asked of a store, whichever it is.

use std::time::Duration;

use crate::envelope::{Message, Position, Sealer};
use crate::memcached::Memcached;
use crate::settings::{Kind, Settings};
use crate::terms::{Failed, LONGEST, Name};
use crate::valkey::Valkey;

/// A connection.
pub enum Remote {
    /// To Valkey or Redis.
    Valkey(Box<Valkey>),
    /// To Memcached.
    Memcached(Box<Memcached>),
}

macro_rules! either {
    ($self:ident, $remote:ident => $what:expr) => {
        match $self {
            Remote::Valkey($remote) => $what,
            Remote::Memcached($remote) => $what,
        }
    };
}

impl Remote {
    /// Connects.
    ///
    /// # Errors
    /// [`Failed`].
    pub fn connect(settings: &Settings, kind: &Kind) -> Result<Remote, Failed> {
        Ok(match kind {
            Kind::Valkey(url) => Remote::Valkey(Box::new(Valkey::connect(settings, url)?)),
            Kind::Memcached(address) => Remote::Memcached(Box::new(Memcached::connect(settings, address)?)),
        })
    }

    /// What lies there, as it was sealed.
    ///
    /// # Errors
    /// [`Failed`], as with all that follow.
    pub fn get(&mut self, name: Name, key: &[u8]) -> Result<Option<Vec<u8>>, Failed> {
        either!(self, remote => remote.get(name, key))
    }

    /// Stores a value for so many milliseconds. With a message the bus has it at the same time; its position there.
    #[allow(missing_docs, clippy::missing_errors_doc)]
    pub fn set(
        &mut self,
        key: &[u8],
        sealed: &[u8],
        ms: u64,
        message: Option<&[u8]>,
    ) -> Result<Option<Position>, Failed> {
        either!(self, remote => remote.set(key, sealed, ms.clamp(1, LONGEST), message))
    }

    /// Stores a value that is kept for so many milliseconds; `None` removes it.
    #[allow(clippy::missing_errors_doc)]
    pub fn keep(&mut self, key: &[u8], value: Option<(&[u8], u64)>) -> Result<(), Failed> {
        either!(self, remote => remote.keep(key, value.map(|(sealed, ms)| (sealed, ms.clamp(1, LONGEST)))))
    }

    /// Stores a value if there is none. Whether it was stored.
    #[allow(clippy::missing_errors_doc)]
    pub fn add(&mut self, name: Name, key: &[u8], sealed: &[u8], ms: u64) -> Result<bool, Failed> {
        either!(self, remote => remote.add(name, key, sealed, ms.clamp(1, LONGEST)))
    }

    /// Stores a value in the place of just these bytes, or removes them, and the bus has the message at the same time. `None`: something else is there.
    #[allow(clippy::missing_errors_doc)]
    pub fn swap(
        &mut self,
        key: &[u8],
        old: &[u8],
        new: Option<(&[u8], u64)>,
        message: &[u8],
    ) -> Result<Option<Position>, Failed> {
        either!(self, remote => remote.swap(key, old, new.map(|(sealed, ms)| (sealed, ms.clamp(1, LONGEST))), message))
    }

    /// A lease or a lock with that token goes on for so many milliseconds. Whether it is there.
    #[allow(clippy::missing_errors_doc)]
    pub fn extend(&mut self, key: &[u8], token: &[u8], ms: u64) -> Result<bool, Failed> {
        either!(self, remote => remote.extend(key, token, ms))
    }

    /// Gives a lease or a lock with that token back.
    #[allow(clippy::missing_errors_doc)]
    pub fn release(&mut self, key: &[u8], token: &[u8]) -> Result<(), Failed> {
        either!(self, remote => remote.release(key, token))
    }

    /// Puts messages on the bus, in their order; values of keys that they name are removed, but for those of the first `repeated`, which were told before.
    #[allow(clippy::missing_errors_doc)]
    pub fn tell(&mut self, sealer: &Sealer, messages: &[Message], repeated: usize) -> Result<(), Failed> {
        either!(self, remote => remote.tell(sealer, messages, repeated))
    }

    /// The name of the bus, where it begins, and whether something was taken off its beginning. Makes one if there is none.
    #[allow(clippy::missing_errors_doc)]
    pub fn bus(&mut self) -> Result<(u64, Position), Failed> {
        either!(self, remote => remote.bus())
    }

    /// The position of the last message.
    #[allow(clippy::missing_errors_doc)]
    pub fn last(&mut self) -> Result<Position, Failed> {
        match self {
            Remote::Valkey(remote) => remote.last(),
            Remote::Memcached(_) => Ok(Position::default()),
        }
    }

    /// Messages after a position, at most `most`, in their order. Waits for one at most so long.
    #[allow(clippy::missing_errors_doc)]
    pub fn read(
        &mut self,
        after: Position,
        most: usize,
        patience: Duration,
    ) -> Result<Vec<(Position, Vec<u8>)>, Failed> {
        either!(self, remote => remote.read(after, most, patience))
    }
}

impl Kind {
    /// Whether it has a bus.
    pub fn has_bus(&self) -> bool {
        matches!(self, Kind::Valkey(_))
    }
}
