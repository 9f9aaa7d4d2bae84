//! Users of an htpasswd file: reading it, and checking a password against a hash (bcrypt, apr1, SHA). A check takes as long for
//! a user who is not there as for one who is, and compares in constant time.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};
use sha1::Sha1;
use subtle::ConstantTimeEq;

/// Most users of one file.
pub const MAX_USERS: usize = 10_000;
/// The highest cost of bcrypt that is accepted; each step doubles the time. 14 takes more than a second.
const MAX_COST: u32 = 14;
/// Longest password that is looked at. bcrypt itself looks at 72 bytes.
const MAX_PASSWORD: usize = 256;

/// The users of an htpasswd file, by name, with their hashes. The message of a failure begins with the line's number.
pub fn parse(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut users = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at = |why: &str| format!("line {}: {why}", number + 1);
        let (name, rest) = line.split_once(':').ok_or_else(|| at("is not USER:HASH"))?;
        let hash = rest.split(':').next().unwrap_or(rest);
        if name.is_empty() {
            return Err(at("has no user"));
        }
        Kind::of(hash).map_err(|why| at(&format!("user '{name}': {why}")))?;
        if users.insert(name.to_owned(), hash.to_owned()).is_some() {
            return Err(at(&format!("user '{name}' is there twice")));
        }
        if users.len() > MAX_USERS {
            return Err(at(&format!("more than {MAX_USERS} users")));
        }
    }
    if users.is_empty() { Err("names no user".to_owned()) } else { Ok(users) }
}

/// The kinds of hashes.
enum Kind<'a> {
    Bcrypt,
    /// Salt and digest.
    Apr1(&'a str, &'a str),
    Sha(Vec<u8>),
}

impl Kind<'_> {
    fn of(hash: &str) -> Result<Kind<'_>, String> {
        if ["$2y$", "$2b$", "$2a$", "$2x$"].iter().any(|begin| hash.starts_with(begin)) {
            let cost = hash.get(4..6).and_then(|cost| cost.parse().ok()).filter(|_| hash.len() == 60);
            return match cost {
                Some(4..=MAX_COST) => Ok(Kind::Bcrypt),
                Some(cost) => Err(format!("bcrypt with cost {cost}; 4 to {MAX_COST} are accepted")),
                None => Err("its bcrypt hash is not whole".to_owned()),
            };
        }
        if let Some((salt, digest)) = hash.strip_prefix("$apr1$").and_then(|rest| rest.split_once('$')) {
            let is_whole = !salt.is_empty() && salt.len() <= 8 && digest.len() == 22;
            return if is_whole { Ok(Kind::Apr1(salt, digest)) } else { Err("its apr1 hash is not whole".to_owned()) };
        }
        if let Some(text) = hash.strip_prefix("{SHA}") {
            let digest = STANDARD.decode(text).ok().filter(|digest| digest.len() == 20);
            return digest.map(Kind::Sha).ok_or_else(|| "its SHA hash is not whole".to_owned());
        }
        Err("its hash is none of bcrypt, apr1 and SHA; htpasswd -B makes one".to_owned())
    }
}

/// What a password is compared with: a user's hash, or another's if there is no such user, which takes the time that a hash of
/// this file takes.
pub struct Compared {
    hash: String,
    is_known: bool,
}

impl Compared {
    /// Nothing if the file names nobody.
    pub fn of(users: &BTreeMap<String, String>, name: &str) -> Option<Compared> {
        let known = users.get(name);
        let hash = known.or_else(|| users.values().next())?.clone();
        Some(Compared { hash, is_known: known.is_some() })
    }

    /// Whether the password is that user's.
    pub fn is_right(&self, password: &[u8]) -> bool {
        password.len() <= MAX_PASSWORD && matches(&self.hash, password) && self.is_known
    }
}

fn matches(hash: &str, password: &[u8]) -> bool {
    match Kind::of(hash) {
        // htpasswd writes $2y$, which is what bcrypt calls $2b$.
        Ok(Kind::Bcrypt) => bcrypt::verify(password, hash).unwrap_or(false),
        Ok(Kind::Apr1(salt, digest)) => bool::from(apr1(password, salt.as_bytes()).as_bytes().ct_eq(digest.as_bytes())),
        Ok(Kind::Sha(digest)) => bool::from(Sha1::digest(password)[..].ct_eq(&digest)),
        Err(_) => false,
    }
}

/// Apache's variant of MD5-crypt: the digest as 22 characters.
fn apr1(password: &[u8], salt: &[u8]) -> String {
    let other = Md5::new().chain_update(password).chain_update(salt).chain_update(password).finalize();
    let mut begin = Md5::new().chain_update(password).chain_update("$apr1$").chain_update(salt);
    for part in 0..password.len().div_ceil(16) {
        begin.update(&other[..(password.len() - part * 16).min(16)]);
    }
    let mut bits = password.len();
    while bits > 0 {
        begin.update(if bits & 1 == 1 { &[0][..] } else { password.get(..1).unwrap_or_default() });
        bits >>= 1;
    }
    let mut digest = begin.finalize();
    for round in 0..1000 {
        let mut next = Md5::new();
        let (first, last) = if round % 2 == 1 { (password, &digest[..]) } else { (&digest[..], password) };
        next.update(first);
        if round % 3 != 0 {
            next.update(salt);
        }
        if round % 7 != 0 {
            next.update(password);
        }
        next.update(last);
        digest = next.finalize();
    }
    const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    const ORDER: [[usize; 3]; 5] = [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]];
    let mut text = String::with_capacity(22);
    let mut write = |mut bits: u32, count: usize| {
        for _ in 0..count {
            text.push(char::from(ALPHABET[(bits & 63) as usize]));
            bits >>= 6;
        }
    };
    for three in ORDER {
        let [a, b, c] = three.map(|at| u32::from(digest[at]));
        write((a << 16) | (b << 8) | c, 4);
    }
    write(u32::from(digest[11]), 2);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by htpasswd and by `openssl passwd -apr1`.
    const FILE: &str = "# users\n\
        sha:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n\
        apr:$apr1$TESTSALT$/qh1NeASK65KivtI8Dg4a0\n";

    fn is_right(users: &BTreeMap<String, String>, name: &str, password: &[u8]) -> bool {
        Compared::of(users, name).is_some_and(|compared| compared.is_right(password))
    }

    #[test]
    fn hashes_of_each_kind_are_checked() {
        let cheap = bcrypt::hash("password", 4).unwrap();
        let users = parse(&format!("{FILE}bcrypt:{cheap}\n")).unwrap();
        for name in ["sha", "apr", "bcrypt"] {
            assert!(is_right(&users, name, b"password"), "{name}");
            assert!(!is_right(&users, name, b"passwore") && !is_right(&users, name, b""), "{name}");
        }
        assert!(!is_right(&users, "nobody", b"password") && !is_right(&BTreeMap::new(), "a", b"password"));
        assert!(!is_right(&users, "sha", &[b'x'; 300]));
    }

    #[test]
    fn digests_are_those_of_openssl() {
        for (password, salt, digest) in [
            ("password", "TESTSALT", "/qh1NeASK65KivtI8Dg4a0"),
            ("a longer password than sixteen bytes, and than thirty-two", "ab", "e21mrNCDLqE1xFZ6askMz1"),
            ("", "abcdefgh", "L.PT565ESX4Tp2bqNs7Ie."),
        ] {
            assert_eq!(apr1(password.as_bytes(), salt.as_bytes()), digest, "{password}");
        }
    }

    #[test]
    fn broken_files_are_named_by_their_line() {
        for (text, part) in [
            ("", "names no user"),
            ("a", "line 1: is not USER:HASH"),
            ("# x\n\n:x", "line 3: has no user"),
            ("a:plain", "line 1: user 'a': its hash is none of"),
            ("a:$2y$10$short", "not whole"),
            ("a:{SHA}xx", "not whole"),
            ("a:$apr1$toolongsalt$x", "not whole"),
            (
                "a:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\na:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=",
                "line 2: user 'a' is there twice",
            ),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        }
    }
}
