//! What a connection's hooks have said to its server, and whether a reset can say it again.

/// Bytes of a reset, at most, without its last question.
pub const MOST_RESET: usize = 2048;
/// Replies to a reset, at most.
const MOST_REPLIES: u16 = 64;

/// The protocols that are understood.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Of MariaDB and MySQL.
    Mysql = 1,
    /// Of PostgreSQL.
    Postgres = 2,
    /// Of Redis and Valkey.
    Redis = 3,
}

impl Protocol {
    /// The protocol of that number.
    pub fn of(number: u8) -> Option<Protocol> {
        [Protocol::Mysql, Protocol::Postgres, Protocol::Redis].into_iter().find(|one| *one as u8 == number)
    }
}

/// Why a connection is not kept.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No protocol that is understood.
    Unknown = 1,
    /// By TLS or GSSAPI.
    Encrypted = 2,
    /// What is compressed has a state that a rewind would repeat.
    Compressed = 3,
    /// It was asked for in the login.
    Capabilities = 4,
    /// A message or statement that a reset cannot repeat.
    Statement = 5,
    /// A statement that was prepared is still there.
    Prepared = 6,
    /// A message is not complete.
    Incomplete = 7,
    /// The hooks have said more than a reset may.
    TooLong = 8,
    /// The hooks have closed it.
    Closed = 9,
    /// Nothing was sent.
    Silent = 10,
}

impl Refusal {
    /// All of them, in the order of their numbers.
    pub const ALL: [Refusal; 10] = [
        Refusal::Unknown,
        Refusal::Encrypted,
        Refusal::Compressed,
        Refusal::Capabilities,
        Refusal::Statement,
        Refusal::Prepared,
        Refusal::Incomplete,
        Refusal::TooLong,
        Refusal::Closed,
        Refusal::Silent,
    ];

    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Refusal::Unknown => "its protocol is none of MySQL, PostgreSQL and Redis",
            Refusal::Encrypted => "it is encrypted, and a rewound state of encryption would repeat nonces",
            Refusal::Compressed => "it is compressed, and a rewind would repeat the state of its compression",
            Refusal::Capabilities => {
                "its login asks for what a reset cannot restore (MYSQLI_CLIENT_IGNORE_SPACE, MYSQLI_CLIENT_INTERACTIVE)"
            }
            Refusal::Statement => {
                "its hook has sent what a reset cannot send again: only SET, USE and questions for variables can be"
            }
            Refusal::Prepared => "its hook has left a prepared statement open, and a reset closes it",
            Refusal::Incomplete => "its hook has left a message incomplete",
            Refusal::TooLong => "its hook has sent more settings than a reset may have (2 KiB, 64 statements)",
            Refusal::Closed => "its hook has closed it",
            Refusal::Silent => "its hook has sent nothing on it, which says no protocol: have it send a PING",
        }
    }
}

/// A refusal, and which of the client's bytes it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub why: Refusal,
    /// From which byte on.
    pub at: usize,
    /// How many.
    pub size: usize,
}

/// What a reset of one connection says: the protocol's own reset, and then what the hooks have said.
#[derive(Clone, Copy)]
pub struct Plan {
    /// The protocol.
    pub protocol: Protocol,
    /// How many statements or commands are said, each of which the server confirms.
    pub replies: u16,
    size: u16,
    bytes: [u8; MOST_RESET],
}

impl Plan {
    /// A reset that says nothing.
    pub fn new(protocol: Protocol) -> Plan {
        Plan { protocol, replies: 0, size: 0, bytes: [0; MOST_RESET] }
    }

    /// What is said.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.size)).unwrap_or_default()
    }

    /// Appends bytes. False: there is no room for them.
    #[must_use]
    pub fn push(&mut self, parts: &[&[u8]]) -> bool {
        for part in parts {
            let from = usize::from(self.size);
            let Some(room) = self.bytes.get_mut(from..from + part.len()) else { return false };
            room.copy_from_slice(part);
            self.size = u16::try_from(from + part.len()).unwrap_or(u16::MAX);
        }
        true
    }

    /// Where the next command begins: bytes and replies so far.
    pub fn end(&self) -> (u16, u16) {
        (self.size, self.replies)
    }

    /// Takes back what was appended since that was the end.
    pub fn take_back(&mut self, (size, replies): (u16, u16)) {
        (self.size, self.replies) = (size.min(self.size), replies.min(self.replies));
    }

    /// Expects so many confirmations more. False: these are too many.
    #[must_use]
    pub fn expect(&mut self, replies: u16) -> bool {
        self.replies = self.replies.saturating_add(replies);
        self.replies <= MOST_REPLIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_refusals_are_their_places() {
        assert!(Refusal::ALL.iter().enumerate().all(|(at, why)| *why as usize == at + 1));
    }

    #[test]
    fn a_plan_has_an_end() {
        let mut plan = Plan::new(Protocol::Redis);
        assert!(plan.push(&[&[7; MOST_RESET]]));
        assert!(!plan.push(&[b"x"]));
        assert_eq!(plan.bytes().len(), MOST_RESET);
        assert!(plan.expect(MOST_REPLIES) && !plan.expect(1));
    }
}
