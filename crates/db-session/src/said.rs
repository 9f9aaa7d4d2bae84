//! What drivers and servers say, as tests need it.

use crate::plan::{Plan, Refusal};
use crate::protocols::{judge, plan, text};
use crate::reset::{NONCE, Verdict, nonce};

/// A packet of MySQL.
fn packet(number: u8, payload: &[u8]) -> Vec<u8> {
    let size = u32::try_from(payload.len()).expect("a short payload").to_le_bytes();
    [&size[..3], &[number], payload].concat()
}

fn login(flags: u32, database: &str) -> Vec<u8> {
    let flags = flags | 0x200 | 0x8000 | if database.is_empty() { 0 } else { 8 };
    let mut payload = [&flags.to_le_bytes()[..], &[0, 0, 0, 1, 45], &[0; 23], b"app\0\x03abc"].concat();
    if !database.is_empty() {
        payload.extend_from_slice(database.as_bytes());
        payload.push(0);
    }
    packet(1, &payload)
}

fn query(text: &str) -> Vec<u8> {
    packet(0, &[b"\x03", text.as_bytes()].concat())
}

fn mysql(more: &[Vec<u8>]) -> Vec<u8> {
    [&[login(0, "shop")][..], more].concat().concat()
}

/// A message of PostgreSQL.
fn message(kind: &[u8], content: &[u8]) -> Vec<u8> {
    let size = u32::try_from(content.len() + 4).expect("a short message").to_be_bytes();
    [kind, &size, content].concat()
}

fn postgres(more: &[Vec<u8>]) -> Vec<u8> {
    let startup = message(b"", &[&[0, 3, 0, 0][..], b"user\0app\0database\0shop\0\0"].concat());
    [&[message(b"", &80_877_103_u32.to_be_bytes()), startup, message(b"p", b"md5abc\0")][..], more].concat().concat()
}

fn why(sent: &[u8]) -> Option<Refusal> {
    plan(sent).err().map(|refused| refused.why)
}

fn made(sent: &[u8]) -> Plan {
    plan(sent).unwrap_or_else(|refused| panic!("{refused:?}: {sent:?}"))
}

fn has(haystack: &[u8], needle: &str) -> bool {
    haystack.windows(needle.len()).any(|some| some == needle.as_bytes())
}

#[test]
fn mysql_says_again_what_was_set() {
    let statement = |code: u8, rest: &[u8]| packet(0, &[&[code], rest].concat());
    let said = mysql(&[
        packet(3, b"password"),
        query("SET NAMES utf8mb4"),
        query("SELECT @@version"),
        statement(0x02, b"other"),
        statement(0x16, b"set time_zone='+01:00'"),
        statement(0x17, &[1, 0, 0, 0, 0, 1, 0, 0, 0]),
        statement(0x19, &[1, 0, 0, 0]),
    ]);
    let plan = made(&said);
    for part in ["ROLLBACK", "\x02shop", "SET NAMES utf8mb4", "\x02other", "set time_zone"] {
        assert!(has(plan.bytes(), part), "{part}");
    }
    // The names set all that the login sets.
    assert!(!has(plan.bytes(), "collation_connection") && !has(plan.bytes(), "version") && plan.replies == 9);
}

#[test]
fn mysql_says_names_once() {
    const COLLATED: &str = "SET NAMES 'utf8mb4' COLLATE 'utf8mb4_unicode_520_ci'";
    let of = |said: &[&str]| {
        let said: Vec<Vec<u8>> = said.iter().map(|text| query(text)).collect();
        let plan = made(&mysql(&said));
        let parts = ["collation_connection=045", "SET NAMES utf8mb4", COLLATED, "SET a=1", "SET NAMES utf8, @b='c'"];
        (parts.map(|part| has(plan.bytes(), part)), plan.replies)
    };
    // As WordPress has it; what lies between two may depend on the first, and a text may set more than names.
    for (said, expected) in [
        (&["SET NAMES utf8mb4", COLLATED, "SET a=1"][..], ([false, false, true, true, false], 8)),
        (&["SET NAMES utf8mb4", "SET a=1", COLLATED], ([false, true, true, true, false], 9)),
        (&["SET a=1", COLLATED], ([true, false, true, true, false], 9)),
        (&["SET NAMES utf8mb4", "SET NAMES utf8, @b='c'", COLLATED], ([false, true, true, false, true], 9)),
        (&["SET NAMES utf8, @b='c'"], ([true, false, false, false, true], 8)),
        (&["SELECT @@version"], ([true, false, false, false, false], 7)),
    ] {
        assert_eq!(of(said), expected, "{said:?}");
    }
    for between in [packet(0, b"\x02other"), packet(0, b"\x1b\0\0")] {
        let said = mysql(&[query("SET NAMES utf8mb4"), between, query(COLLATED)]);
        assert!(has(made(&said).bytes(), "SET NAMES utf8mb4"));
    }
    let prepared = [
        query("SET NAMES utf8mb4"),
        packet(0, &[b"\x16", COLLATED.as_bytes()].concat()),
        packet(0, b"\x17\x01\0\0\0\0\x01\0\0\0"),
        packet(0, b"\x19\x01\0\0\0"),
    ];
    let plan = made(&mysql(&prepared));
    assert!(has(plan.bytes(), COLLATED) && !has(plan.bytes(), "SET NAMES utf8mb4") && plan.replies == 7);
}

#[test]
fn mysql_refuses_what_it_cannot_put_back() {
    for (flags, expected) in [
        (1 << 11, Refusal::Encrypted),
        (1 << 5, Refusal::Compressed),
        (1 << 26, Refusal::Capabilities),
        (1 << 8, Refusal::Capabilities),
        (1 << 10, Refusal::Capabilities),
    ] {
        assert_eq!(why(&login(flags, "")), Some(expected));
    }
    let tls = [packet(1, &[0, 0x8a, 0, 0].repeat(8)), b"\x16\x03\x01\x02\0\x01\0".to_vec()].concat();
    assert_eq!(why(&tls), Some(Refusal::Encrypted));
    assert_eq!(why(&mysql(&[query("CREATE TEMPORARY TABLE a (b INT)")])), Some(Refusal::Statement));
    assert_eq!(why(&mysql(&[packet(0, b"\x16SET a=1")])), Some(Refusal::Prepared));
    assert_eq!(why(&mysql(&[packet(0, b"\x01")])), Some(Refusal::Closed));
    assert_eq!(why(&mysql(&[packet(0, b"\x11app\0")])), Some(Refusal::Statement));
    assert_eq!(why(&mysql(&[vec![9, 0, 0, 0, 3]])), Some(Refusal::Incomplete));
    assert_eq!(why(&mysql(&vec![query("SET a=1"); 80])), Some(Refusal::TooLong));
}

#[test]
fn postgres_says_again_what_was_set() {
    let said = postgres(&[
        message(b"Q", b"SET search_path TO shop\0"),
        message(b"Q", b"SELECT version()\0"),
        message(b"P", b"pdo_1\0set names 'utf8'\0\0\0"),
        message(b"B", b"\0pdo_1\0\0\0\0\0\0\0"),
        message(b"E", b"\0\0\0\0\0"),
        message(b"S", b""),
        message(b"Q", b"DEALLOCATE pdo_1\0"),
    ]);
    let plan = made(&said);
    for part in ["DISCARD ALL", "SET search_path TO shop", "set names 'utf8'"] {
        assert!(has(plan.bytes(), part), "{part}");
    }
    assert!(!has(plan.bytes(), "version") && plan.replies == 3);
}

#[test]
fn postgres_refuses_what_it_cannot_put_back() {
    let asks = message(b"", &80_877_103_u32.to_be_bytes());
    assert_eq!(why(&[&asks[..], b"\x16\x03\x01\x02\0\x01\0"].concat()), Some(Refusal::Encrypted));
    assert_eq!(why(&postgres(&[message(b"Q", b"LISTEN a\0")])), Some(Refusal::Statement));
    assert_eq!(why(&postgres(&[message(b"P", b"a\0SET b TO c\0\0\0")])), Some(Refusal::Prepared));
    assert_eq!(why(&postgres(&[message(b"X", b"")])), Some(Refusal::Closed));
    let parameter = message(b"B", b"\0\0\0\0\0\x01\0\0\0\x01a\0\0");
    assert_eq!(why(&postgres(&[message(b"P", b"\0SET b TO c\0\0\0"), parameter])), Some(Refusal::Statement));
}

#[test]
fn redis_says_again_what_was_set() {
    let plan = made(b"*2\r\n$4\r\nauth\r\n$3\r\nabc\r\n*1\r\n$4\r\nPING\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n");
    assert!(has(plan.bytes(), "RESET") && has(plan.bytes(), "abc") && !has(plan.bytes(), "PING") && plan.replies == 2);
    for command in ["*1\r\n$5\r\nMULTI\r\n", "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n", "*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\na\r\n"]
    {
        assert_eq!(why(command.as_bytes()), Some(Refusal::Statement), "{command}");
    }
    assert_eq!(why(b"*2\r\n$4\r\nAUTH\r\n$3\r\na"), Some(Refusal::Incomplete));
}

const NUMBER: [u8; 8] = [0, 1, 2, 3, 0xfc, 0xfd, 0xfe, 0xff];

/// That replies are right as a whole, incomplete if some are missing, and wrong if anything is added or changed.
fn judges(sent: &[u8], replies: &[Vec<u8>], strays: &[Vec<u8>]) {
    let plan = made(sent);
    let nonce: [u8; NONCE] = nonce(NUMBER);
    let right = replies.concat();
    let verdict = |replies: &[u8]| judge(&plan, false, &nonce, replies).0;
    assert_eq!(verdict(&right), Verdict::Right);
    for size in 0..right.len() {
        assert_eq!(verdict(&right[..size]), Verdict::Incomplete, "{size}");
    }
    for stray in strays {
        for at in 0..=replies.len() {
            let with = [&replies[..at], std::slice::from_ref(stray), &replies[at..]].concat().concat();
            assert_eq!(verdict(&with), Verdict::Wrong, "{at}: {stray:?}");
        }
    }
    let other = crate::reset::nonce([7; 8]);
    assert_eq!(judge(&plan, false, &other, &right).0, Verdict::Wrong);
    let mut size = 0;
    assert!(text(&plan, false, &nonce, &mut |part| {
        size += part.len();
        true
    }));
    assert!(size > NONCE);
}

#[test]
fn replies_of_mysql_are_judged() {
    let ok = || packet(1, &[0, 0, 0, 2, 0, 0, 0]);
    let letters = nonce(NUMBER);
    let end = [0xfe, 0, 0, 2, 0];
    let column = |number| packet(number, b"\x03def\0\0\0\x01a\0\x0c\x2d\0\0\0\0\0\xfd\0\0\0\0\0");
    let row = [&[16][..], &letters, b"\x03a@b\xfb\x04shop\0"].concat();
    let replies = [
        ok(),
        ok(),
        ok(),
        ok(),
        packet(1, &end),
        ok(),
        ok(),
        packet(1, &[5]),
        column(2),
        column(3),
        column(4),
        column(5),
        column(6),
        packet(7, &end),
        packet(8, &row),
        packet(9, &end),
    ];
    judges(&mysql(&[]), &replies, &[ok(), packet(1, &[0xff, 1, 2, b'#']), packet(1, &end)]);
    let mut open = replies.clone();
    open[15] = packet(9, &[0xfe, 0, 0, 3, 0]);
    let plan = made(&mysql(&[]));
    assert_eq!(judge(&plan, false, &letters, &open.concat()).0, Verdict::Wrong);
    let mut greeted = replies.clone();
    greeted[14] = packet(8, &[&[16][..], &letters, b"\x03a@b\xfb\x04shop\x05SET a"].concat());
    assert_eq!(judge(&plan, false, &letters, &greeted.concat()).0, Verdict::Greeted);
    assert_eq!(judge(&plan, false, &letters, &replies.concat()).1, b"\x03a@b\xfb\x04shop\0");
}

#[test]
fn replies_of_postgres_are_judged() {
    let ready = || message(b"Z", b"I");
    let row = [&[0, 2, 0, 0, 0, 0, 0, 0, 0, 16][..], &nonce(NUMBER)].concat();
    let replies = [
        message(b"C", b"DISCARD ALL\0"),
        ready(),
        message(b"S", b"a\0b\0"),
        message(b"C", b"SET\0"),
        ready(),
        message(b"T", b"\0\x02"),
        message(b"D", &row),
        message(b"C", b"SELECT 1\0"),
        ready(),
    ];
    let said = postgres(&[message(b"Q", b"SET a TO b\0")]);
    judges(
        &said,
        &replies,
        &[message(b"C", b"UPDATE 1\0"), message(b"E", b"SERROR\0\0"), message(b"Z", b"T"), message(b"A", b"")],
    );
    let nobody = [&replies[..6], &[message(b"C", b"SELECT 0\0")]].concat().concat();
    assert_eq!(judge(&made(&said), false, &nonce(NUMBER), &nobody).0, Verdict::Languages);
}

#[test]
fn replies_of_redis_are_judged() {
    let replies = [b"+RESET\r\n".to_vec(), b"+OK\r\n".to_vec(), [b"$16\r\n", &nonce(NUMBER)[..], b"\r\n"].concat()];
    judges(
        b"*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n",
        &replies,
        &[b"+OK\r\n".to_vec(), b"-ERR\r\n".to_vec(), b"$1\r\na\r\n".to_vec()],
    );
}
