//! The protocol of PostgreSQL, version 3.
//!
//! Messages have a type, a length of four bytes that counts itself, and then their content. Those before the login have no type.

use crate::plan::{Plan, Protocol, Refusal, Refused};
use crate::reset::{LARGEST, NONCE, Verdict};
use crate::statement::{Kind, kind};

const ASKS_FOR_TLS: u32 = 80_877_103;
const ASKS_FOR_GSSAPI: u32 = 80_877_104;
/// Protocols 3.0 and 3.2.
const LOGINS: [u32; 2] = [196_608, 196_610];

fn number(bytes: &[u8]) -> Option<u32> {
    let [a, b, c, d, ..] = bytes else { return None };
    Some(u32::from_be_bytes([*a, *b, *c, *d]))
}

/// A message with a type: its type, its content, and how many bytes it has.
fn message(bytes: &[u8]) -> Option<(u8, &[u8], usize)> {
    let (kind, rest) = bytes.split_first()?;
    let size = usize::try_from(number(rest)?).ok()?;
    Some((*kind, rest.get(4..size)?, 1 + size))
}

fn text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    Some((bytes.get(..end)?, bytes.get(end + 1..)?))
}

/// Appends a statement.
fn say(plan: &mut Plan, text: &[u8], replies: u16) -> bool {
    let Ok(size) = u32::try_from(text.len() + 5) else { return false };
    plan.push(&[b"Q", &size.to_be_bytes(), text, b"\0"]) && plan.expect(replies)
}

/// Where the login ends.
fn login(sent: &[u8]) -> Result<usize, Refusal> {
    let mut at = 0;
    loop {
        let rest = sent.get(at..).unwrap_or_default();
        if at > 0 && rest.first().is_some_and(|byte| *byte != 0) {
            return Err(Refusal::Encrypted);
        }
        let size = number(rest).and_then(|size| usize::try_from(size).ok()).ok_or(Refusal::Incomplete)?;
        let whole = rest.get(..size).ok_or(Refusal::Incomplete)?;
        let code = number(whole.get(4..).unwrap_or_default()).ok_or(Refusal::Unknown)?;
        at += size;
        match code {
            ASKS_FOR_TLS | ASKS_FOR_GSSAPI if size == 8 && at <= 16 => {}
            code if LOGINS.contains(&code) => return Ok(at),
            _ => return Err(Refusal::Unknown),
        }
    }
}

/// What was prepared and bound, while the hooks' messages are read.
#[derive(Default)]
struct Prepared<'a> {
    text: Option<(&'a [u8], Kind)>,
    /// How many have a name.
    named: u32,
}

/// A statement that is prepared: without a name it is gone with the next.
fn prepare<'a>(prepared: &mut Prepared<'a>, said: &'a [u8]) -> Option<bool> {
    let (name, rest) = text(said)?;
    let (text, _types) = text(rest)?;
    prepared.named += u32::from(!name.is_empty());
    prepared.text = Some((text, kind(text)));
    Some(prepared.named <= 1 && matches!(kind(text), Kind::Sets(1) | Kind::Asks))
}

/// Whether a statement is bound that has no parameters.
fn binds_nothing(said: &[u8]) -> Option<bool> {
    let (_portal, rest) = text(said)?;
    let (_statement, rest) = text(rest)?;
    let [high, low, rest @ ..] = rest else { return None };
    let formats = usize::from(u16::from_be_bytes([*high, *low]));
    Some(rest.get(2 * formats..)?.get(..2)? == [0, 0])
}

/// Reads what a client has sent.
///
/// # Errors
/// The connection cannot be kept.
pub fn plan(sent: &[u8]) -> Result<Plan, Refused> {
    let refuse = |why, at, size| Refused { why, at, size };
    let mut at = login(sent).map_err(|why| refuse(why, 0, 0))?;
    let mut plan = Plan::new(Protocol::Postgres);
    if !say(&mut plan, b"DISCARD ALL", 1) {
        return Err(refuse(Refusal::TooLong, 0, 0));
    }
    let mut is_logged_in = false;
    let mut prepared = Prepared::default();
    while at < sent.len() {
        let rest = sent.get(at..).unwrap_or_default();
        let (code, said, size) = message(rest).ok_or(refuse(Refusal::Incomplete, at, 0))?;
        at += size;
        let refused = |why| Err(refuse(why, at - said.len(), said.len()));
        is_logged_in |= code != b'p';
        let is_said = match code {
            b'p' if !is_logged_in => true,
            b'Q' => match text(said).map(|(text, _)| (text, kind(text))) {
                Some((text, Kind::Sets(count))) => say(&mut plan, text, count),
                Some((_, Kind::Asks)) => true,
                Some((_, Kind::Deallocates)) if prepared.named > 0 => {
                    prepared.named -= 1;
                    true
                }
                _ => return refused(Refusal::Statement),
            },
            b'P' if prepare(&mut prepared, said) == Some(true) => true,
            b'B' if binds_nothing(said) == Some(true) && prepared.text.is_some() => true,
            b'E' => match prepared.text {
                Some((text, Kind::Sets(count))) => say(&mut plan, text, count),
                Some((_, Kind::Asks)) => true,
                _ => return refused(Refusal::Statement),
            },
            b'C' if said.first() == Some(&b'S') && said.len() > 2 && prepared.named > 0 => {
                prepared.named -= 1;
                true
            }
            b'C' | b'D' | b'H' | b'S' => true,
            b'X' => return refused(Refusal::Closed),
            _ => return refused(Refusal::Statement),
        };
        if !is_said {
            return refused(Refusal::TooLong);
        }
    }
    match prepared.named {
        0 => Ok(plan),
        _ => Err(refuse(Refusal::Prepared, at, 0)),
    }
}

/// What comes before a reset if the server has said last that a transaction is open.
pub const ROLLBACK: &[u8] = b"Q\0\0\0\x0dROLLBACK\0";

/// Whether the server's last bytes say that a transaction is open, or that one has failed.
pub fn is_in_transaction(last: &[u8; 6]) -> bool {
    matches!(last, [b'Z', 0, 0, 0, 5, b'T' | b'E'])
}

/// Writes the last question of a reset. Its reply has the nonce in it, if the database has no extension but some that keep nothing in a
/// session (dblink and postgres_fdw keep connections), no procedural language whose variables outlive DISCARD ALL, and the session no
/// temporary slot. The seed of random() outlives it, too, and is set.
pub fn question(nonce: &[u8; NONCE], write: &mut impl FnMut(&[u8]) -> bool) -> bool {
    const HEAD: &[u8] = b"SELECT pg_catalog.setseed(0.";
    const MIDDLE: &[u8] = b"), '";
    const TAIL: &[u8] = b"' WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname NOT IN ('plpgsql', 'btree_gin', \
        'btree_gist', 'citext', 'cube', 'earthdistance', 'fuzzystrmatch', 'hstore', 'intarray', 'isn', 'ltree', 'pg_stat_statements', \
        'pg_trgm', 'pgcrypto', 'postgis', 'seg', 'tablefunc', 'unaccent', 'uuid-ossp', 'vector')) AND NOT EXISTS \
        (SELECT FROM pg_catalog.pg_language WHERE lanname NOT IN ('internal', 'c', 'sql', 'plpgsql')) AND NOT EXISTS \
        (SELECT FROM pg_catalog.pg_replication_slots WHERE temporary AND active_pid = pg_catalog.pg_backend_pid())\0";
    let seed = nonce.map(|byte| b'0' + byte % 10);
    let size = u32::try_from(4 + HEAD.len() + MIDDLE.len() + 2 * NONCE + TAIL.len()).unwrap_or(0);
    write(b"Q")
        && write(&size.to_be_bytes())
        && write(HEAD)
        && write(&seed)
        && write(MIDDLE)
        && write(nonce)
        && write(TAIL)
}

/// Whether an error says that the server ends the session or has interrupted the statement, as when it shuts down. Fields have a letter
/// and a text; the severity `V` is the same in every language, and class 57 of the codes `C` is an operator's intervention.
fn is_interruption(mut fields: &[u8]) -> bool {
    while let Some((letter, rest)) = fields.split_first() {
        let Some((field, after)) = text(rest) else { return false };
        match letter {
            b'V' if matches!(field, b"FATAL" | b"PANIC") => return true,
            b'C' if field.starts_with(b"57") => return true,
            _ => fields = after,
        }
    }
    false
}

/// Whether a reply to a reset may begin so. Another message, of which a request has read a part, is not waited for: what is left of it may say
/// that it is as long as anything.
fn may_begin(bytes: &[u8]) -> bool {
    let Some((kind, rest)) = bytes.split_first() else { return true };
    b"SNCZTDE".contains(kind) && number(rest).is_none_or(|size| usize::try_from(size).is_ok_and(|size| size <= LARGEST))
}

/// Judges what comes after the row with the nonce: that is all, unless the session ends just then.
fn judge_end(rest: &[u8]) -> Verdict {
    match message(rest) {
        None => Verdict::Incomplete,
        Some((b'E', fields, _)) if is_interruption(fields) => Verdict::Ended,
        Some((b'Z', b"I", size)) => match rest.get(size..).unwrap_or_default() {
            [] => Verdict::Right,
            more => match message(more) {
                Some((b'E', fields, _)) if is_interruption(fields) => Verdict::Ended,
                None if more.first() == Some(&b'E') && may_begin(more) => Verdict::Incomplete,
                _ => Verdict::Wrong,
            },
        },
        Some(_) => Verdict::Wrong,
    }
}

/// Judges the replies to a reset; `has_rollback`: it began with [`ROLLBACK`].
pub fn judge(plan: &Plan, has_rollback: bool, nonce: &[u8; NONCE], replies: &[u8]) -> Verdict {
    let mut at = 0;
    let mut confirmed = 0;
    let expected = plan.replies + u16::from(has_rollback);
    let mut has_row = false;
    loop {
        let rest = replies.get(at..).unwrap_or_default();
        let Some((code, said, size)) = message(rest) else {
            return if may_begin(rest) { Verdict::Incomplete } else { Verdict::Wrong };
        };
        at += size;
        let is_last = confirmed == expected;
        match (code, said) {
            // Settings that have changed, and notices.
            (b'S' | b'N', _) => {}
            (b'E', fields) if is_interruption(fields) => return Verdict::Ended,
            (b'C', _) if !is_last => confirmed += 1,
            (b'Z', b"I") if !is_last || at < replies.len() => {}
            (b'T', _) if is_last && !has_row => {}
            // Two values, the first of which has no bytes.
            (b'D', [0, 2, 0, 0, 0, 0, 0, 0, 0, size, row @ ..]) if is_last && !has_row => {
                has_row = usize::from(*size) == NONCE && row == nonce;
                if !has_row {
                    return Verdict::Wrong;
                }
            }
            (b'C', b"SELECT 1\0") if has_row => {
                return judge_end(replies.get(at..).unwrap_or_default());
            }
            (b'C', b"SELECT 0\0") if is_last => return Verdict::Languages,
            _ if at == replies.len() && (code, said) == (b'Z', b"I") => return Verdict::Incomplete,
            _ => return Verdict::Wrong,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_another_message_is_not_waited_for() {
        let plan = Plan::new(Protocol::Postgres);
        let judge = |replies: &[u8]| judge(&plan, false, &[b'a'; NONCE], replies);
        for begun in [&b""[..], b"C", b"S\0\0", b"Z\0\0\0\x05", b"T\0\0\x40\0", b"E\0\0\0\x40VFATAL\0"] {
            assert_eq!(judge(begun), Verdict::Incomplete, "{begun:?}");
        }
        // The end of a row of COPY, and the next one.
        for left in [&b"\nd\0\0\0\x06"[..], b"\n", b"C\0\0\x40\x01", b"D2\nd\0\0"] {
            assert_eq!(judge(left), Verdict::Wrong, "{left:?}");
        }
    }

    #[test]
    fn a_session_that_ends_when_it_was_reset_is_not_refused() {
        const ROW: &[u8] = b"C\0\0\0\x10DISCARD ALL\0Z\0\0\0\x05ID\0\0\0\x1e\0\x02\0\0\0\0\0\0\0\x10aaaaaaaaaaaaaaaaC\0\0\0\x0dSELECT 1\0";
        const READY: &[u8] = b"Z\0\0\0\x05I";
        const FATAL: &[u8] = b"E\0\0\0\x0cVFATAL\0\0";
        let mut plan = Plan::new(Protocol::Postgres);
        assert!(plan.expect(1));
        let judge = |parts: &[&[u8]]| judge(&plan, false, &[b'a'; NONCE], &[&[ROW], parts].concat().concat());
        assert_eq!(judge(&[READY]), Verdict::Right);
        assert_eq!(judge(&[]), Verdict::Incomplete);
        assert_eq!(judge(&[READY, &FATAL[..9]]), Verdict::Incomplete);
        assert_eq!(judge(&[READY, FATAL]), Verdict::Ended);
        assert_eq!(judge(&[FATAL]), Verdict::Ended);
        for more in [&b"E\0\0\0\x0cVERROR\0\0"[..], READY, b"N\0", b"N\0\0\0\x05\0"] {
            assert_eq!(judge(&[READY, more]), Verdict::Wrong, "{more:?}");
        }
    }

    #[test]
    fn a_server_that_shuts_down_has_not_refused_a_reset() {
        let plan = Plan::new(Protocol::Postgres);
        let judge = |fields: &[u8]| {
            let size = u32::try_from(4 + fields.len()).unwrap().to_be_bytes();
            judge(&plan, false, &[b'a'; NONCE], &[b"E", &size[..], fields].concat())
        };
        for ended in [&b"SFATAL\0VFATAL\0C57P01\0\0"[..], b"SFEHLER\0VERROR\0C57014\0Mx\0\0", b"VPANIC\0CXX000\0\0"] {
            assert_eq!(judge(ended), Verdict::Ended, "{ended:?}");
        }
        for refused in [&b"SERROR\0VERROR\0C42501\0MFATAL\0\0"[..], b"SFATAL\0C42501\0\0", b"VFATAL", b"\0", b""] {
            assert_eq!(judge(refused), Verdict::Wrong, "{refused:?}");
        }
    }
}
