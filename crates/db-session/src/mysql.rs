//! The protocol of MariaDB and MySQL.
//!
//! Packets have a length of three bytes, a number, and then the payload. Packets of the login are numbered on from the server's
//! greeting; each command begins again with 0.

use crate::plan::{Plan, Protocol, Refusal, Refused};
use crate::reset::{LARGEST, NONCE, Verdict};
use crate::statement::{Kind, is_names, kind};

const INIT_DB: u8 = 0x02;
const QUERY: u8 = 0x03;
const QUIT: u8 = 0x01;
const PING: u8 = 0x0e;
const PREPARE: u8 = 0x16;
const EXECUTE: u8 = 0x17;
const CLOSE_STATEMENT: u8 = 0x19;
const SET_OPTION: u8 = 0x1b;
const RESET_CONNECTION: u8 = 0x1f;

/// MariaDB's reset leaves the texts of statements that a request has profiled. A list with no room is emptied by the next statement that
/// is profiled. The reset sets both variables to their defaults, but would have the statement behind it profiled.
const FORGET_PROFILES: [&[u8]; 2] = [b"SET profiling=1,profiling_history_size=0", b"SET profiling=0"];
/// What a reset leaves as it is, and no statement sets in a way that is known here: it is compared. Another user, role or database ends
/// the connection.
const QUESTION: [&[u8]; 2] = [b"SELECT '", b"',CURRENT_USER(),CURRENT_ROLE(),DATABASE(),@@GLOBAL.init_connect"];
const COLUMNS: u8 = 5;
/// Packets of the reply.
const END_OF_COLUMNS: u8 = COLUMNS + 1;
const ROW: u8 = COLUMNS + 2;

/// `CLIENT_` flags of a login.
mod flags {
    pub const CONNECT_WITH_DB: u32 = 1 << 3;
    pub const COMPRESS: u32 = 1 << 5;
    pub const IGNORE_SPACE: u32 = 1 << 8;
    pub const PROTOCOL_41: u32 = 1 << 9;
    pub const INTERACTIVE: u32 = 1 << 10;
    pub const SSL: u32 = 1 << 11;
    pub const SECURE_CONNECTION: u32 = 1 << 15;
    pub const MULTI_STATEMENTS: u32 = 1 << 16;
    pub const PLUGIN_AUTH_LENENC: u32 = 1 << 21;
    pub const SESSION_TRACK: u32 = 1 << 23;
    pub const DEPRECATE_EOF: u32 = 1 << 24;
    /// Metadata that may be missing, compression by zstd, attributes of queries, factors of a login.
    pub const LATER: u32 = 0b1_1110 << 24;
}

/// Status of a reply: a transaction is open; another reply follows.
const IN_TRANSACTION: u16 = 1;
const MORE_REPLIES: u16 = 8;

/// One packet: its number, its payload, and how many bytes it has.
fn packet(bytes: &[u8]) -> Option<(u8, &[u8], usize)> {
    let [a, b, c, number, rest @ ..] = bytes else { return None };
    let size = u32::from_le_bytes([*a, *b, *c, 0]) as usize;
    // A longer message goes on in the next packet, which nothing here does.
    let payload = rest.get(..size).filter(|_| size < 0xff_ffff)?;
    Some((*number, payload, 4 + size))
}

/// Whether a reply to a reset may begin so: what is left of another packet may say that it is as long as anything.
fn may_begin(bytes: &[u8]) -> bool {
    let [a, b, c, ..] = bytes else { return true };
    u32::from_le_bytes([*a, *b, *c, 0]) as usize <= LARGEST
}

/// Errors of a server that ends the session or the statement for a reason of its own: it shuts down (1053, 1080), the statement (1317) or
/// the session (1927, MariaDB) was killed, or was idle for too long (4031, MySQL).
const INTERRUPTIONS: [u16; 5] = [1053, 1080, 1317, 1927, 4031];

/// Whether a payload is one of these errors.
fn is_interruption(payload: &[u8]) -> bool {
    matches!(payload, [0xff, low, high, ..] if INTERRUPTIONS.contains(&u16::from_le_bytes([*low, *high])))
}

/// Text up to a zero byte, and what follows.
fn text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    Some((bytes.get(..end)?, bytes.get(end + 1..)?))
}

/// What of a login is to be said again.
struct Login<'a> {
    database: Option<&'a [u8]>,
    collation: u8,
    has_multi_statements: bool,
}

fn login(payload: &[u8]) -> Result<Login<'_>, Refusal> {
    let [a, b, c, d, _, _, _, _, collation, rest @ ..] = payload else { return Err(Refusal::Unknown) };
    let asked = u32::from_le_bytes([*a, *b, *c, *d]);
    let has = |flag: u32| asked & flag != 0;
    if has(flags::SSL) {
        return Err(Refusal::Encrypted);
    }
    if !has(flags::PROTOCOL_41) {
        return Err(Refusal::Unknown);
    }
    if has(flags::COMPRESS) {
        return Err(Refusal::Compressed);
    }
    if has(flags::IGNORE_SPACE | flags::INTERACTIVE | flags::SESSION_TRACK | flags::DEPRECATE_EOF | flags::LATER) {
        return Err(Refusal::Capabilities);
    }
    let database = || {
        let (_user, rest) = text(rest.get(23..)?)?;
        let rest = if has(flags::PLUGIN_AUTH_LENENC | flags::SECURE_CONNECTION) {
            let [size, rest @ ..] = rest else { return None };
            rest.get(usize::from(*size)..).filter(|_| *size < 0xfb)?
        } else {
            text(rest)?.1
        };
        text(rest).map(|(database, _)| database)
    };
    let database = match has(flags::CONNECT_WITH_DB) {
        true => Some(database().ok_or(Refusal::Unknown)?).filter(|name| !name.is_empty()),
        false => None,
    };
    Ok(Login { database, collation: *collation, has_multi_statements: has(flags::MULTI_STATEMENTS) })
}

/// Appends a command. False: there is no room.
fn command(plan: &mut Plan, code: u8, text: &[u8], replies: u16) -> bool {
    let Ok(size) = u16::try_from(text.len() + 1) else { return false };
    let [low, high] = size.to_le_bytes();
    plan.push(&[&[low, high, 0, 0, code], text]) && plan.expect(replies)
}

/// Where the last command of a plan begins, if all that it sets is set again by a `SET NAMES` behind it.
type Names = Option<(u16, u16)>;

/// Appends a text that so many replies confirm. What it makes of no use just before it is taken back.
fn say(plan: &mut Plan, names: &mut Names, text: &[u8], replies: u16) -> bool {
    let before = names.take();
    if is_names(text) {
        before.into_iter().for_each(|end| plan.take_back(end));
        *names = Some(plan.end());
    }
    command(plan, QUERY, text, replies)
}

/// The settings of the login: `SET` takes numbers of collations.
fn restore(plan: &mut Plan, names: &mut Names, login: &Login) -> bool {
    let mut digits = [b'0'; 3];
    for (at, unit) in [100, 10, 1].into_iter().enumerate() {
        if let Some(digit) = digits.get_mut(at) {
            *digit = b'0' + login.collation / unit % 10;
        }
    }
    let mut text = [0u8; 96];
    let parts: [&[u8]; 6] = [
        b"SET character_set_client=",
        &digits,
        b",character_set_results=",
        &digits,
        b",collation_connection=",
        &digits,
    ];
    let mut size = 0;
    for part in parts {
        let Some(room) = text.get_mut(size..size + part.len()) else { return false };
        room.copy_from_slice(part);
        size += part.len();
    }
    let off = [u8::from(!login.has_multi_statements), 0];
    let [empties, stops] = FORGET_PROFILES;
    command(plan, QUERY, b"ROLLBACK", 1)
        && command(plan, QUERY, empties, 1)
        && command(plan, QUERY, stops, 1)
        && command(plan, RESET_CONNECTION, b"", 1)
        && command(plan, SET_OPTION, &off, 1)
        && login.database.is_none_or(|name| command(plan, INIT_DB, name, 1))
        && (login.collation == 0 || {
            *names = Some(plan.end());
            command(plan, QUERY, text.get(..size).unwrap_or_default(), 1)
        })
}

/// Reads what a client has sent.
///
/// # Errors
/// The connection cannot be kept.
pub fn plan(sent: &[u8]) -> Result<Plan, Refused> {
    let refuse = |why, at, size| Refused { why, at, size };
    let (_, first, mut at) = packet(sent).ok_or(refuse(Refusal::Incomplete, 0, 0))?;
    let login = login(first).map_err(|why| refuse(why, 0, 0))?;
    let mut plan = Plan::new(Protocol::Mysql);
    let mut names = None;
    if !restore(&mut plan, &mut names, &login) {
        return Err(refuse(Refusal::TooLong, 0, 0));
    }
    let mut is_logged_in = false;
    // The statement that is prepared, if there is one.
    let mut prepared: Option<(&[u8], Kind)> = None;
    while at < sent.len() {
        let rest = sent.get(at..).unwrap_or_default();
        let (number, payload, size) = packet(rest).ok_or(refuse(Refusal::Incomplete, at, 0))?;
        at += size;
        if number != 0 && !is_logged_in {
            continue; // of the login
        }
        is_logged_in = true;
        let ([code, said @ ..], 0) = (payload, number) else { return Err(refuse(Refusal::Unknown, at - size, 0)) };
        let refused = |why| Err(refuse(why, at - said.len(), said.len()));
        let is_said = match *code {
            PING => true,
            QUIT => return refused(Refusal::Closed),
            INIT_DB | SET_OPTION => {
                names = None;
                command(&mut plan, *code, said, 1)
            }
            QUERY => match kind(said) {
                Kind::Sets(count) => say(&mut plan, &mut names, said, count),
                Kind::Asks => true,
                Kind::Deallocates | Kind::Other => return refused(Refusal::Statement),
            },
            PREPARE if prepared.is_none() => match kind(said) {
                found @ (Kind::Sets(1) | Kind::Asks) => {
                    prepared = Some((said, found));
                    true
                }
                _ => return refused(Refusal::Statement),
            },
            // Its number, no cursor, once, and no parameter.
            EXECUTE if said.len() == 9 && said.get(4) == Some(&0) => match prepared {
                Some((text, Kind::Sets(count))) => say(&mut plan, &mut names, text, count),
                Some(_) => true,
                None => return refused(Refusal::Statement),
            },
            CLOSE_STATEMENT if said.len() == 4 && prepared.is_some() => {
                prepared = None;
                true
            }
            _ => return refused(Refusal::Statement),
        };
        if !is_said {
            return refused(Refusal::TooLong);
        }
    }
    match prepared {
        Some(_) => Err(refuse(Refusal::Prepared, at, 0)),
        None => Ok(plan),
    }
}

/// Writes the last question of a reset: its reply has the nonce in it.
pub fn question(nonce: &[u8; NONCE], write: &mut impl FnMut(&[u8]) -> bool) -> bool {
    let [head, tail] = QUESTION;
    let [size, ..] = (1 + head.len() + NONCE + tail.len()).to_le_bytes();
    write(&[size, 0, 0, 0, QUERY]) && write(head) && write(nonce) && write(tail)
}

/// Status and size of a confirmation; None: it is not complete; an error: what it is instead.
fn confirmed(bytes: &[u8]) -> Option<Result<(u16, usize), Verdict>> {
    let (_, payload, size) = packet(bytes)?;
    let status = match payload {
        // How many rows, and the last number: each a byte, if nothing was changed.
        [0, 0, 0, low, high, ..] => [*low, *high],
        // As old servers confirm an option.
        [0xfe, _, _, low, high] => [*low, *high],
        _ => return Some(Err(not_confirmed(payload))),
    };
    Some(Ok((u16::from_le_bytes(status), size)))
}

fn not_confirmed(payload: &[u8]) -> Verdict {
    if is_interruption(payload) { Verdict::Ended } else { Verdict::Wrong }
}

/// Judges the replies to a reset. If they are right, the values behind the nonce come with that.
pub fn judge<'a>(plan: &Plan, nonce: &[u8; NONCE], replies: &'a [u8]) -> (Verdict, &'a [u8]) {
    let wrong = (Verdict::Wrong, &[][..]);
    let incomplete = |rest| if may_begin(rest) { (Verdict::Incomplete, &[][..]) } else { wrong };
    let mut at = 0;
    for left in (0..plan.replies).rev() {
        let rest = replies.get(at..).unwrap_or_default();
        let Some(found) = confirmed(rest) else { return incomplete(rest) };
        let (status, size) = match found {
            Ok(found) => found,
            Err(verdict) => return (verdict, &[]),
        };
        // A confirmation that more follow is one of several statements.
        if left == 0 && status & (MORE_REPLIES | IN_TRANSACTION) != 0 {
            return wrong;
        }
        at += size;
    }
    let mut values = &[][..];
    // How many columns, what each is, an end, one row, an end.
    for part in 0..COLUMNS + 4 {
        let rest = replies.get(at..).unwrap_or_default();
        let Some((number, payload, size)) = packet(rest) else { return incomplete(rest) };
        at += size;
        let is_right = number == part + 1
            && match (part, payload) {
                (0, [COLUMNS]) => true,
                (1..=COLUMNS, [3, b'd', b'e', b'f', ..]) => true,
                (END_OF_COLUMNS, [0xfe, _, _, _, _]) => true,
                (ROW, [size, row @ ..]) if usize::from(*size) == NONCE => match row.split_at_checked(NONCE) {
                    Some((said, rest)) if said == nonce => {
                        values = rest;
                        true
                    }
                    _ => false,
                },
                (_, [0xfe, _, _, low, high]) => {
                    u16::from_le_bytes([*low, *high]) & (MORE_REPLIES | IN_TRANSACTION) == 0
                }
                _ => false,
            };
        if !is_right {
            return (not_confirmed(payload), &[]);
        }
    }
    let rest = replies.get(at..).unwrap_or_default();
    match (values, packet(rest)) {
        // The session ends just then.
        (_, Some((_, payload, _))) => (not_confirmed(payload), &[]),
        _ if !rest.is_empty() => incomplete(rest),
        // The last value is an empty text.
        ([.., 0], None) => (Verdict::Right, values),
        _ => (Verdict::Greeted, &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_another_packet_is_not_waited_for() {
        let mut plan = Plan::new(Protocol::Mysql);
        assert!(plan.expect(1));
        let judge = |replies| judge(&plan, &[b'a'; NONCE], replies).0;
        for begun in [&b""[..], b"\x07\0", b"\x07\0\0\x01\0\0", b"\0\x40\0"] {
            assert_eq!(judge(begun), Verdict::Incomplete, "{begun:?}");
        }
        for left in [&b"\x01\x40\0"[..], b"abc"] {
            assert_eq!(judge(left), Verdict::Wrong, "{left:?}");
        }
    }

    #[test]
    fn a_session_that_ends_when_it_was_reset_is_not_refused() {
        let packet = |number: u8, payload: &[u8]| [&[payload.len() as u8, 0, 0, number], payload].concat();
        const END: &[u8] = b"\xfe\0\0\x02\0";
        let mut right = vec![packet(1, b"\0\0\0\x02\0\0\0"), packet(1, &[COLUMNS])];
        right.extend((0..COLUMNS).map(|column| packet(column + 2, b"\x03def")));
        right.extend([packet(7, END), packet(8, b"\x10aaaaaaaaaaaaaaaa\x01a\0"), packet(9, END)]);
        let mut plan = Plan::new(Protocol::Mysql);
        assert!(plan.expect(1));
        let judge = |more: &[u8]| judge(&plan, &[b'a'; NONCE], &[&right.concat(), more].concat()).0;
        assert_eq!(judge(b""), Verdict::Right);
        let killed = packet(0, b"\xff\x87\x07#70100");
        assert_eq!(judge(&killed), Verdict::Ended);
        assert_eq!(judge(&killed[..6]), Verdict::Incomplete);
        assert_eq!(judge(&packet(0, b"\xff\x15\x04#28000")), Verdict::Wrong);
        assert_eq!(judge(&packet(0, b"\0")), Verdict::Wrong);
    }

    #[test]
    fn a_server_that_shuts_down_has_not_refused_a_reset() {
        let mut plan = Plan::new(Protocol::Mysql);
        assert!(plan.expect(1));
        let judge = |replies: &[u8]| judge(&plan, &[b'a'; NONCE], replies).0;
        const CONFIRMED: &[u8] = b"\x07\0\0\x01\0\0\0\x02\0\0\0";
        // Server shutdown in progress; connection was killed; as a reply to the reset, and to the question behind it.
        for error in [&b"\x09\0\0\x01\xff\x1d\x04#08S01"[..], b"\x09\0\0\x01\xff\x87\x07#70100"] {
            assert_eq!(judge(error), Verdict::Ended, "{error:?}");
            assert_eq!(judge(&[CONFIRMED, error].concat()), Verdict::Ended, "{error:?}");
        }
        // Access denied; and a text of that number.
        for error in [&b"\x09\0\0\x01\xff\x15\x04#28000"[..], b"\x03\0\0\x01\xfe\x1d\x04", b"\x01\0\0\x01\xff"] {
            assert_eq!(judge(error), Verdict::Wrong, "{error:?}");
        }
    }
}
