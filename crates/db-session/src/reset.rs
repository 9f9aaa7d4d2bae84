//! What the replies to a reset are.
//!
//! A reset ends with a question that nobody could have asked before: its reply has a random number in it. So what a request has
//! asked and not waited for is never taken for a reply to the reset, and when the number has come, nothing else can follow.

/// Bytes of the random number, in letters `a` to `p`.
pub const NONCE: usize = 16;

/// Bytes of the largest message in the replies to a reset: the worker has room for as many of all of them together.
pub const LARGEST: usize = 16_384;

/// What the replies so far are.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// More has to come.
    Incomplete = 0,
    /// The session is as its hooks have left it.
    Right = 1,
    /// Anything else.
    Wrong = 2,
    /// PostgreSQL has an extension or a language that keeps something in a session, or the session has a slot.
    Languages = 3,
    /// MariaDB and MySQL run statements for each new session, which a reset does not.
    Greeted = 4,
    /// The server ends the session, or the statement, for a reason of its own: another session may be confirmed.
    Ended = 5,
}

/// A number in letters.
pub fn nonce(random: [u8; NONCE / 2]) -> [u8; NONCE] {
    let mut letters = [b'a'; NONCE];
    for (pair, byte) in letters.chunks_exact_mut(2).zip(random) {
        if let [high, low] = pair {
            (*high, *low) = (b'a' + (byte >> 4), b'a' + (byte & 15));
        }
    }
    letters
}
