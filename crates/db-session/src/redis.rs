//! The protocol of Redis and Valkey: RESP, version 2.

use crate::plan::{Plan, Protocol, Refusal, Refused};
use crate::reset::{NONCE, Verdict};

const RESET: &[u8] = b"*1\r\n$5\r\nRESET\r\n";
/// Arguments of a command that a hook may send.
const MOST_ARGUMENTS: usize = 4;
/// Digits of a number.
const MOST_DIGITS: usize = 10;

/// A line without its end, and what follows.
fn line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.windows(2).position(|two| two == b"\r\n")?;
    Some((bytes.get(..end)?, bytes.get(end + 2..)?))
}

/// One that traffic can be followed with, too: clients write no more digits.
fn number(line: &[u8], sign: u8) -> Option<usize> {
    let digits = line.strip_prefix(&[sign]).filter(|digits| digits.len() <= MOST_DIGITS)?;
    core::str::from_utf8(digits).ok()?.parse().ok()
}

/// A command's first arguments, how many it has, and what follows it.
struct Command<'a> {
    arguments: [&'a [u8]; MOST_ARGUMENTS],
    count: usize,
    after: &'a [u8],
}

fn command(bytes: &[u8]) -> Option<Command<'_>> {
    let (head, mut rest) = line(bytes)?;
    let count = number(head, b'*').filter(|count| *count > 0)?;
    let mut arguments: [&[u8]; MOST_ARGUMENTS] = [b""; MOST_ARGUMENTS];
    for at in 0..count {
        let (head, after) = line(rest)?;
        let size = number(head, b'$')?;
        let argument = after.get(..size)?;
        rest = after.get(size..)?.strip_prefix(b"\r\n")?;
        if let Some(room) = arguments.get_mut(at) {
            *room = argument;
        }
    }
    Some(Command { arguments, count, after: rest })
}

/// Reads what a client has sent.
///
/// # Errors
/// The connection cannot be kept.
pub fn plan(sent: &[u8]) -> Result<Plan, Refused> {
    let mut plan = Plan::new(Protocol::Redis);
    let mut rest = sent;
    let mut is_said = plan.push(&[RESET]);
    while !rest.is_empty() {
        let at = sent.len() - rest.len();
        let Some(Command { arguments, count, after }) = command(rest) else {
            return Err(Refused { why: Refusal::Incomplete, at, size: 0 });
        };
        let size = rest.len() - after.len();
        let whole = rest.get(..size).unwrap_or_default();
        rest = after;
        let [name, first, ..] = arguments;
        let is = |one: &[u8], other: &str| one.eq_ignore_ascii_case(other.as_bytes());
        let is_set = match count {
            2 | 3 if is(name, "AUTH") => true,
            2 if is(name, "SELECT") => true,
            3 if is(name, "CLIENT") && is(first, "SETNAME") => true,
            // They leave nothing that a request can see.
            1 | 2 if is(name, "PING") || is(name, "ECHO") => continue,
            4 if is(name, "CLIENT") && is(first, "SETINFO") => continue,
            _ => false,
        };
        if !is_set {
            return Err(Refused { why: Refusal::Statement, at, size });
        }
        is_said = is_said && plan.push(&[whole]) && plan.expect(1);
    }
    if is_said { Ok(plan) } else { Err(Refused { why: Refusal::TooLong, at: 0, size: 0 }) }
}

/// Writes the last question of a reset: its reply is the nonce.
pub fn question(nonce: &[u8; NONCE], write: &mut impl FnMut(&[u8]) -> bool) -> bool {
    const { assert!(NONCE == 16) };
    write(b"*2\r\n$4\r\nECHO\r\n$16\r\n") && write(nonce) && write(b"\r\n")
}

/// How a server begins its reply while it reads its data back after a restart.
const LOADING: &[u8] = b"-LOADING ";

/// Judges the replies to a reset.
pub fn judge(plan: &Plan, nonce: &[u8; NONCE], replies: &[u8]) -> Verdict {
    let mut rest = replies;
    let mut takes = |expected: &[u8]| {
        let there = rest.get(..expected.len().min(rest.len())).unwrap_or_default();
        if expected.get(..there.len()) != Some(there) {
            return Some(match rest {
                _ if rest.starts_with(LOADING) => Verdict::Ended,
                _ if LOADING.starts_with(rest) => Verdict::Incomplete,
                _ => Verdict::Wrong,
            });
        }
        if there.len() < expected.len() {
            return Some(Verdict::Incomplete);
        }
        rest = rest.get(expected.len()..).unwrap_or_default();
        None
    };
    if let Some(verdict) = takes(b"+RESET\r\n") {
        return verdict;
    }
    for _ in 0..plan.replies {
        if let Some(verdict) = takes(b"+OK\r\n") {
            return verdict;
        }
    }
    for part in [&b"$16\r\n"[..], nonce, b"\r\n"] {
        if let Some(verdict) = takes(part) {
            return verdict;
        }
    }
    if rest.is_empty() { Verdict::Right } else { Verdict::Wrong }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_reads_its_data_back_has_not_refused_a_reset() {
        let mut plan = Plan::new(Protocol::Redis);
        assert!(plan.expect(1));
        let judge = |replies| judge(&plan, &[b'a'; NONCE], replies);
        assert_eq!(judge(b"+RESET\r\n-LOADING Redis is loading the dataset in memory\r\n"), Verdict::Ended);
        assert_eq!(judge(b"+RESET\r\n-LOAD"), Verdict::Incomplete);
        assert_eq!(judge(b"+RESET\r\n-LOADED 1\r\n"), Verdict::Wrong);
        assert_eq!(judge(b"+RESET\r\n-NOAUTH Authentication required.\r\n"), Verdict::Wrong);
    }

    #[test]
    fn what_traffic_cannot_follow_is_no_plan() {
        let sent = |size: &str| format!("*2\r\n$4\r\nAUTH\r\n${size}\r\n3\r\n");
        assert!(plan(sent("1").as_bytes()).is_ok());
        let refused = plan(sent("00000000001").as_bytes()).err().map(|refused| (refused.why, refused.at));
        assert_eq!(refused, Some((Refusal::Incomplete, 0)));
    }
}
