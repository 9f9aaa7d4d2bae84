//! All protocols: which one a client speaks, what a reset says, and whether the replies are right.

use crate::plan::{Plan, Protocol, Refusal, Refused};
use crate::reset::{NONCE, Verdict};
use crate::{mysql, postgres, redis};

/// Reads all that a client has sent on a connection.
///
/// # Errors
/// The connection cannot be kept.
pub fn plan(sent: &[u8]) -> Result<Plan, Refused> {
    match sent {
        [] => Err(Refused { why: Refusal::Silent, at: 0, size: 0 }),
        [b'*', ..] => redis::plan(sent),
        // A client of PostgreSQL begins with a length of less than 64 KiB, most significant byte first.
        [0, 0, _, _, ..] => postgres::plan(sent),
        // TLS without a word before.
        [0x16, 3, ..] => Err(Refused { why: Refusal::Encrypted, at: 0, size: 0 }),
        // A client of MySQL replies to the greeting, which is packet 0.
        [_, _, 0, 1, ..] => mysql::plan(sent),
        _ => Err(Refused { why: Refusal::Unknown, at: 0, size: 0 }),
    }
}

/// Writes a reset; `in_transaction`: the server has said last that one is open (PostgreSQL). False: `write` had no room.
pub fn text(plan: &Plan, in_transaction: bool, nonce: &[u8; NONCE], write: &mut impl FnMut(&[u8]) -> bool) -> bool {
    let is_begun = !in_transaction || write(postgres::ROLLBACK);
    is_begun
        && write(plan.bytes())
        && match plan.protocol {
            Protocol::Mysql => mysql::question(nonce, write),
            Protocol::Postgres => postgres::question(nonce, write),
            Protocol::Redis => redis::question(nonce, write),
        }
}

/// What a client says before it leaves, at most 8 bytes: a server takes note of one that does not.
pub fn goodbye(protocol: Protocol) -> &'static [u8] {
    match protocol {
        Protocol::Mysql => b"\x01\0\0\0\x01",
        Protocol::Postgres => b"X\0\0\0\x04",
        Protocol::Redis => b"",
    }
}

/// Judges all replies that have come since. With [`Verdict::Right`] come the values that have to be the same after each reset.
pub fn judge<'a>(plan: &Plan, in_transaction: bool, nonce: &[u8; NONCE], replies: &'a [u8]) -> (Verdict, &'a [u8]) {
    match plan.protocol {
        Protocol::Mysql => mysql::judge(plan, nonce, replies),
        Protocol::Postgres => (postgres::judge(plan, in_transaction, nonce, replies), &[]),
        Protocol::Redis => (redis::judge(plan, nonce, replies), &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_else_is_taken_for_a_protocol() {
        for sent in
            [&b""[..], b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"get key\r\n", b"\0\0", b"+OK\r\n"]
        {
            assert!(plan(sent).is_err(), "{sent:?}");
        }
        assert_eq!(plan(b"\x16\x03\x01\x02\x00\x01").err().map(|one| one.why), Some(Refusal::Encrypted));
    }
}
