//! Checks each complete request head before hyper sees it.
//!
//! If hyper cannot parse a head, it responds without a page, a line in the access log or a count. It also refuses targets
//! that nginx accepts. So each head is parsed here first, by the parser that hyper uses. A head that hyper would refuse
//! gets a [`Framed::refusal`], and hyper gets another request in its place. Bytes of a target that hyper does not accept
//! are percent-encoded for hyper; PHP gets the target as it came.
//!
//! The head alone decides the framing of the body (RFC 9112 §6): one Content-Length of digits, or one `Transfer-Encoding:
//! chunked`, never both. hyper reads the framing of every accepted head alike.

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::Uri;

use super::chunked::Scanner;
use inbound::request::Original;
use routing::refusal::Refusal;
use routing::target::MAX_TARGET;

/// Largest head, its empty line included.
pub const MAX_HEAD: usize = 32 * 1024;
/// Headers of a head; hyper has the same limit.
const MAX_HEADERS: usize = 100;
/// Digits of a Content-Length: all that fit into 63 bits.
const MAX_DIGITS: usize = 18;
/// How the preface of an HTTP/2 connection begins (RFC 9113 §3.4). HTTP/1 has no such request.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\n";
/// What hyper gets in place of a head that is refused.
const STAND_IN: [&[u8]; 2] =
    [b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n", b"HEAD / HTTP/1.1\r\nConnection: close\r\n\r\n"];

/// What hyper does not know of a request.
#[derive(Clone, Debug, Default)]
pub struct Framed {
    /// The reason, if the request is refused.
    pub refusal: Option<Refusal>,
    /// Its request line as it came, if hyper got another.
    pub original: Option<Box<Original>>,
}

/// Splits a request line. If the line does not have three parts, everything behind the first is the second.
fn original(line: &[u8]) -> Box<Original> {
    let line = Bytes::copy_from_slice(line);
    let whole = target(&line);
    let (method, sent, protocol) = whole.unwrap_or_else(|| {
        let space = memchr::memchr(b' ', &line).unwrap_or(line.len());
        let (first, rest) = line.split_at(space);
        (first, rest.strip_prefix(b" ").unwrap_or(rest), b"")
    });
    let path = match whole.map(|(_, target, _)| origin_form(target)) {
        // A target that names a host without a path means the root, which does not stand in the line.
        Some(b"/") | None => Bytes::from_static(b"/"),
        Some(path) => line.slice_ref(path),
    };
    let [method, target, protocol] = [method, sent, protocol].map(|part| line.slice_ref(part));
    Box::new(Original { method, target, path, protocol })
}

/// How a body is framed.
#[derive(Clone, Debug)]
pub enum Body {
    /// By length in bytes; mostly 0.
    Length(u64),
    /// In chunks.
    Chunked(Scanner),
}

/// A complete head.
#[derive(Debug)]
pub struct Head {
    /// Its bytes in the input, with the empty lines before it.
    pub size: usize,
    /// What hyper gets in its place. If empty, hyper gets the head itself, which begins at the first byte.
    pub instead: Option<Vec<u8>>,
    /// What hyper does not know of the request.
    pub framed: Framed,
    /// How the body is framed that follows.
    pub body: Body,
}

/// Looks for a head at the beginning of `bytes`. The first `seen` bytes are known to have no complete head. `None`: the
/// head is not complete.
pub fn head(bytes: &[u8], seen: usize) -> Option<Head> {
    let begin = empty_lines(bytes);
    let Some(end) = end(bytes, begin.max(seen.saturating_sub(3))) else {
        return (bytes.len() >= MAX_HEAD).then(|| refused(bytes, too_large(&bytes[begin..])));
    };
    let head = &bytes[begin..end];
    if end > MAX_HEAD {
        return Some(refused(&bytes[..end], too_large(head)));
    }
    match check(head) {
        Err(why) => Some(refused(&bytes[..end], why)),
        Ok(Checked { instead, original, body }) => {
            // Empty lines before a head are dropped; hyper does not get them.
            let instead = instead.or_else(|| (begin > 0).then(|| head.to_vec()));
            Some(Head { size: end, instead, framed: Framed { refusal: None, original }, body })
        }
    }
}

/// Bytes of the empty lines before a request line. RFC 9112 §2.2 says to ignore them.
fn empty_lines(bytes: &[u8]) -> usize {
    let mut begin = 0;
    loop {
        match bytes[begin..] {
            [b'\n', ..] => begin += 1,
            [b'\r', b'\n', ..] => begin += 2,
            _ => return begin,
        }
    }
}

/// The end of the head: behind its first empty line. Lines end at LF, with or without CR before it, as in hyper.
fn end(bytes: &[u8], from: usize) -> Option<usize> {
    memchr::memchr_iter(b'\n', &bytes[from..]).map(|at| from + at + 1).find_map(|next| match bytes[next..] {
        [b'\n', ..] => Some(next + 1),
        [b'\r', b'\n', ..] => Some(next + 2),
        _ => None,
    })
}

/// The result for a refused head, with the empty lines before it. The head need not be complete.
pub fn refused(bytes: &[u8], why: Refusal) -> Head {
    let (size, line) = (bytes.len(), request_line(&bytes[empty_lines(bytes)..]));
    let instead = STAND_IN[usize::from(line.starts_with(b"HEAD "))].to_vec();
    let kept = original(&line[..line.len().min(MAX_TARGET)]);
    Head {
        size,
        instead: Some(instead),
        framed: Framed { refusal: Some(why), original: Some(kept) },
        body: Body::Length(0),
    }
}

/// Which part of the head is too large.
fn too_large(head: &[u8]) -> Refusal {
    if request_line(head).len() > MAX_TARGET { Refusal::TargetTooLong } else { Refusal::HeadTooLarge }
}

fn request_line(head: &[u8]) -> &[u8] {
    let line = &head[..memchr::memchr(b'\n', head).unwrap_or(head.len())];
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Method, target and version.
fn target(line: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let mut parts = line.split(|byte| *byte == b' ');
    let found = (parts.next()?, parts.next()?, parts.next()?);
    parts.next().is_none().then_some(found)
}

/// The part of a target from its path on.
fn origin_form(target: &[u8]) -> &[u8] {
    if target.starts_with(b"/") {
        return target;
    }
    let Some(scheme) = memchr::memmem::find(target, b"://") else { return target };
    let behind = &target[scheme + 3..];
    memchr::memchr2(b'/', b'?', behind).map_or(b"/", |path| &behind[path..])
}

struct Checked {
    instead: Option<Vec<u8>>,
    original: Option<Box<Original>>,
    body: Body,
}

fn check(head: &[u8]) -> Result<Checked, Refusal> {
    let line = request_line(head);
    let (method, target, version) = target(line).ok_or(Refusal::BadRequest)?;
    if method == b"CONNECT" {
        // A tunnel (CONNECT) has no framing.
        return Err(Refusal::BadMethod);
    }
    if target.len() > MAX_TARGET {
        return Err(Refusal::TargetTooLong);
    }
    if target.iter().any(|byte| byte.is_ascii_control()) {
        return Err(Refusal::BadTarget);
    }
    let rest = &head[line.len()..];
    let rewritten = rewrite(target).map(|target| [method, b" ", &target, b" ", version, rest].concat());
    let body = parse(rewritten.as_deref().unwrap_or(head), !target.starts_with(b"/"))?;
    let original = rewritten.is_some().then(|| original(line));
    Ok(Checked { instead: rewritten, original, body })
}

/// Bytes that hyper accepts in a target unchanged. hyper refuses other bytes, or treats them differently by version.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let bytes = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,;=:@/?%";
    let mut index = 0;
    while index < bytes.len() {
        plain[bytes[index] as usize] = true;
        index += 1;
    }
    plain
};

/// The target for hyper, or for HTTP/2, if it must differ: bytes behind the host that are not plain become `%XX`, and the fragment is left
/// out. A client should not send a fragment, and nginx leaves it out of path and query too.
pub fn rewrite(target: &[u8]) -> Option<Vec<u8>> {
    let path = origin_form(target);
    if path.iter().all(|byte| PLAIN[usize::from(*byte)]) {
        return None;
    }
    let mut made = target[..target.len() - path.len()].to_vec();
    for &byte in path.iter().take_while(|byte| **byte != b'#') {
        if PLAIN[usize::from(byte)] {
            made.push(byte);
        } else {
            const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
            made.extend([b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
    }
    Some(made)
}

/// Parses a head with hyper's parser, and decides the framing of its body.
fn parse(head: &[u8], is_absolute: bool) -> Result<Body, Refusal> {
    let mut headers = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut []);
    match request.parse_with_uninit_headers(head, &mut headers) {
        Ok(httparse::Status::Complete(size)) if size == head.len() => {}
        Ok(_) => return Err(Refusal::BadRequest),
        Err(httparse::Error::TooManyHeaders) => return Err(Refusal::HeadTooLarge),
        Err(_) => return Err(Refusal::BadRequest),
    }
    // hyper accepts every target that begins with a slash and has only plain bytes.
    if is_absolute && request.path.is_none_or(|target| target.parse::<Uri>().is_err()) {
        return Err(Refusal::BadTarget);
    }
    let mut length = None;
    let mut is_chunked = false;
    for header in request.headers {
        if header.name.eq_ignore_ascii_case("content-length") {
            let is_first = length.replace(digits(header.value).ok_or(Refusal::BadFraming)?).is_none();
            is_first.then_some(()).ok_or(Refusal::BadFraming)?;
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            // The only coding that is decoded here is a single "chunked", which HTTP/1.0 does not have.
            let is_one = !std::mem::replace(&mut is_chunked, true);
            let is_known = header.value.trim_ascii().eq_ignore_ascii_case(b"chunked") && request.version == Some(1);
            (is_one && is_known).then_some(()).ok_or(Refusal::BadFraming)?;
        }
    }
    match (length, is_chunked) {
        // RFC 9112 §6.1 allows to treat this as an attack.
        (Some(_), true) => Err(Refusal::BadFraming),
        (length, false) => Ok(Body::Length(length.unwrap_or(0))),
        (None, true) => Ok(Body::Chunked(Scanner::default())),
    }
}

fn digits(value: &[u8]) -> Option<u64> {
    let value = value.trim_ascii();
    let are_digits = (1..=MAX_DIGITS).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
    are_digits.then(|| value.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(bytes: &str) -> Head {
        head(bytes.as_bytes(), 0).expect("a complete head")
    }

    fn why(bytes: &str) -> Option<Refusal> {
        only(bytes).framed.refusal
    }

    #[test]
    fn plain_heads_are_handed_on_as_they_are() {
        let text = "GET /a?b=c HTTP/1.1\r\nHost: a\r\n\r\n";
        let found = only(&format!("{text}POST"));
        assert_eq!((found.size, found.instead, found.framed.original), (text.len(), None, None));
        for (number, _) in text.char_indices() {
            assert!(head(&text.as_bytes()[..number], number.saturating_sub(1)).is_none(), "{number}");
        }
        assert_eq!(only("\r\n\nGET / HTTP/1.0\n\nx").instead.as_deref(), Some(&b"GET / HTTP/1.0\n\n"[..]));
    }

    #[test]
    fn ends_are_found_however_bytes_arrive() {
        let text = b"GET / HTTP/1.1\r\nHost: a\r\nX: y\n\r\n";
        for seen in 0..text.len() {
            assert_eq!(head(text, seen).map(|head| head.size), Some(text.len()), "{seen}");
        }
    }

    #[test]
    fn targets_are_made_fit_and_kept() {
        for (target, made, kept) in [
            ("/?q={\"a\":1}", "/?q=%7B%22a%22:1%7D", "/?q={\"a\":1}"),
            ("/caf\u{e9}", "/caf%C3%A9", "/caf\u{e9}"),
            ("/a<b>`|^[]\\#frag", "/a%3Cb%3E%60%7C%5E%5B%5D%5C", "/a<b>`|^[]\\#frag"),
            ("http://[::1]:8/x?\"", "http://[::1]:8/x?%22", "/x?\""),
            ("http://a?\"", "http://a?%22", "?\""),
        ] {
            let found = only(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
            let expected = format!("GET {made} HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(found.instead.as_deref(), Some(expected.as_bytes()), "{target}");
            assert_eq!(found.framed.original.map(|line| line.path.to_vec()).as_deref(), Some(kept.as_bytes()));
        }
    }

    #[test]
    fn heads_that_are_refused_have_a_stand_in() {
        for (text, expected) in [
            ("GET /\r\n\r\n", Refusal::BadRequest),
            ("GET  / HTTP/1.1\r\n\r\n", Refusal::BadRequest),
            ("\rGET / HTTP/1.1\r\n\r\n", Refusal::BadRequest),
            ("GET / HTTP/2.0\r\n\r\n", Refusal::BadRequest),
            ("GET / HTTP/1.1\r\nA b: c\r\n\r\n", Refusal::BadRequest),
            ("GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n", Refusal::BadRequest),
            ("GET / HTTP/1.1\r\nA: b\rc\r\n\r\n", Refusal::BadRequest),
            ("GET /\x01 HTTP/1.1\r\n\r\n", Refusal::BadTarget),
            ("GET http://[/ HTTP/1.1\r\n\r\n", Refusal::BadTarget),
            ("CONNECT a:80 HTTP/1.1\r\n\r\n", Refusal::BadMethod),
            ("POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", Refusal::BadFraming),
            ("POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\n", Refusal::BadFraming),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n", Refusal::BadFraming),
            ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", Refusal::BadFraming),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", Refusal::BadFraming),
        ] {
            let found = only(text);
            assert_eq!(found.framed.refusal, Some(expected), "{text:?}");
            let line = found.framed.original.expect("its line");
            let line = [line.method, line.target, line.protocol].join(&b' ');
            assert_eq!(line.trim_ascii_end(), text.split("\r\n").next().unwrap_or_default().as_bytes());
            assert_eq!(found.instead.as_deref(), Some(STAND_IN[0]));
        }
        assert_eq!(only("HEAD x\r\n\r\n").instead.as_deref(), Some(STAND_IN[1]));
        let long = "x".repeat(MAX_TARGET);
        assert_eq!(why(&format!("GET /{long} HTTP/1.1\r\n\r\n")), Some(Refusal::TargetTooLong));
        assert_eq!(why(&"x".repeat(MAX_HEAD)), Some(Refusal::TargetTooLong));
        let headers = "A: b\r\n".repeat(MAX_HEADERS + 1);
        assert_eq!(why(&format!("GET / HTTP/1.1\r\n{headers}\r\n")), Some(Refusal::HeadTooLarge));
        let large = format!("GET / HTTP/1.1\r\nA: {}", "x".repeat(MAX_HEAD));
        assert_eq!(why(&large), Some(Refusal::HeadTooLarge));
    }
}
