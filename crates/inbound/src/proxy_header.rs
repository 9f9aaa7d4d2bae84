//! The PROXY protocol, versions 1 and 2: a load balancer begins each connection with a header that says who the client is.
//! Only declared addresses may send one (`proxy_protocol`), and these have to: nobody can tell a header from what a client
//! itself has sent.
//!
//! The header is read to its last byte and no further, because what follows may be TLS. Extensions (TLVs) of version 2 are
//! skipped: neither the host name nor the certificate that they may tell of is used, and checksums are not compared.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};

/// What version 2 begins with.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes of the fixed part of version 2.
const FIXED: usize = 16;
/// Bytes of version 1 at most, its CRLF included.
pub const MAX_LINE: usize = 107;
/// Bytes of version 2 at most, its extensions included.
pub const MAX_SIZE: usize = 4096;

static MALFORMED: AtomicU64 = AtomicU64::new(0);
static LATE: AtomicU64 = AtomicU64::new(0);

/// Connections that were closed because their header was malformed, and because it did not come in time.
pub fn refused() -> [(&'static str, u64); 2] {
    [("malformed", MALFORMED.load(Ordering::Relaxed)), ("late", LATE.load(Ordering::Relaxed))]
}

/// Who a header says the client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// Whoever has sent the header: a check of the balancer's own, or a protocol that has no addresses.
    Sender,
    /// The addresses of the client's own connection: of its end, and of the end that it has connected to.
    Behind(SocketAddr, SocketAddr),
}

/// How far a header has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// At least so many bytes follow.
    More(usize),
    /// It is complete.
    Done(Client),
}

/// The bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Looks at the beginning of a connection. To be called with no byte first, and then with as many more as it asks for.
pub fn step(bytes: &[u8]) -> Result<Step, Malformed> {
    let known = bytes.len().min(SIGNATURE.len());
    if known < SIGNATURE.len() {
        // Both versions are longer than the signature.
        return Ok(Step::More(SIGNATURE.len() - known));
    }
    if bytes.starts_with(&SIGNATURE) { version_2(bytes) } else { version_1(bytes) }
}

fn version_1(bytes: &[u8]) -> Result<Step, Malformed> {
    let rest = bytes.strip_prefix(b"PROXY ").ok_or(Malformed)?;
    let Some(end) = rest.iter().position(|&byte| byte == b'\n') else {
        let missing = if bytes.ends_with(b"\r") { 1 } else { 2 };
        return if bytes.len() + missing > MAX_LINE { Err(Malformed) } else { Ok(Step::More(missing)) };
    };
    let line = rest[..end].strip_suffix(b"\r").filter(|_| end + 1 == rest.len()).ok_or(Malformed)?;
    let line = std::str::from_utf8(line).map_err(|_| Malformed)?;
    let mut words = line.split(' ');
    let client = match words.next() {
        // What follows is not looked at.
        Some("UNKNOWN") => return Ok(Step::Done(Client::Sender)),
        Some("TCP4") => behind::<Ipv4Addr>(&mut words)?,
        Some("TCP6") => behind::<Ipv6Addr>(&mut words)?,
        _ => return Err(Malformed),
    };
    if words.next().is_some() { Err(Malformed) } else { Ok(Step::Done(client)) }
}

fn behind<'a, A: FromStr + Into<IpAddr>>(words: &mut impl Iterator<Item = &'a str>) -> Result<Client, Malformed> {
    let mut next = || words.next().ok_or(Malformed);
    let [source, target] = [next()?, next()?].map(|text| text.parse::<A>().map_err(|_| Malformed));
    let [from, to] = [next()?, next()?].map(port);
    Ok(Client::Behind(SocketAddr::new(source?.into(), from?), SocketAddr::new(target?.into(), to?)))
}

/// A port, in digits alone and without zeroes in front.
fn port(text: &str) -> Result<u16, Malformed> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| is_plain).ok_or(Malformed)
}

fn version_2(bytes: &[u8]) -> Result<Step, Malformed> {
    let Some((fixed, rest)) = bytes.split_first_chunk::<FIXED>() else {
        return Ok(Step::More(FIXED - bytes.len()));
    };
    let (command, family) = (fixed[12], fixed[13]);
    let length = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if FIXED + length > MAX_SIZE {
        return Err(Malformed);
    }
    // What is malformed in the fixed part ends the connection before the rest is waited for.
    let least = match (command, family) {
        // LOCAL: the addresses are not looked at.
        (0x20, _) | (0x21, 0x00) => 0,
        (0x21, 0x11) => 12,
        (0x21, 0x21) => 36,
        // Unix sockets.
        (0x21, 0x31) => 216,
        _ => return Err(Malformed),
    };
    if length < least {
        return Err(Malformed);
    }
    if rest.len() < length {
        return Ok(Step::More(length - rest.len()));
    }
    let end = |address: IpAddr, at: usize| {
        let port = rest.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).ok_or(Malformed)?;
        Ok(SocketAddr::new(address, u16::from_be_bytes(port)))
    };
    Ok(Step::Done(match (command, family) {
        (0x21, 0x11) => {
            let [source, target] = [0, 4].map(|at| number::<4>(rest, at).map(|bytes| Ipv4Addr::from(bytes).into()));
            Client::Behind(end(source?, 8)?, end(target?, 10)?)
        }
        (0x21, 0x21) => {
            let [source, target] = [0, 16].map(|at| number::<16>(rest, at).map(|bytes| Ipv6Addr::from(bytes).into()));
            Client::Behind(end(source?, 32)?, end(target?, 34)?)
        }
        _ => Client::Sender,
    }))
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Malformed> {
    bytes.get(at..at + N).and_then(|bytes| bytes.try_into().ok()).ok_or(Malformed)
}

/// Reads the header of a connection. `None`: there is none, and the connection is to be closed.
pub async fn read<S: AsyncRead + Unpin>(stream: &mut S, patience: Duration) -> Option<Client> {
    match tokio::time::timeout(patience, read_on(stream)).await {
        Ok(Ok(client)) => Some(client),
        Ok(Err(error)) => {
            // A connection without a byte is a check whether the port is open.
            if error.kind() == io::ErrorKind::InvalidData {
                MALFORMED.fetch_add(1, Ordering::Relaxed);
            }
            None
        }
        Err(_) => {
            LATE.fetch_add(1, Ordering::Relaxed);
            None
        }
    }
}

async fn read_on<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<Client> {
    let malformed = || io::Error::new(io::ErrorKind::InvalidData, "no PROXY header");
    let mut header = Vec::new();
    loop {
        let more = match step(&header).map_err(|Malformed| malformed())? {
            Step::Done(client) => return Ok(client),
            Step::More(more) => more,
        };
        let before = header.len();
        header.resize(before + more, 0);
        let mut buffer = ReadBuf::new(&mut header[before..]);
        poll_fn(|context| Pin::new(&mut *stream).poll_read(context, &mut buffer)).await?;
        let count = buffer.filled().len();
        header.truncate(before + count);
        if count == 0 {
            return Err(if header.is_empty() { io::ErrorKind::UnexpectedEof.into() } else { malformed() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of bytes that are given as far as they are asked for, and how many were.
    fn parsed(bytes: &[u8]) -> (Result<Step, Malformed>, usize) {
        let mut taken = 0;
        loop {
            match step(&bytes[..taken]) {
                Ok(Step::More(more)) if taken + more <= bytes.len() => taken += more,
                end => return (end, taken),
            }
        }
    }

    fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        [&SIGNATURE[..], &[command, family], &(rest.len() as u16).to_be_bytes(), rest].concat()
    }

    fn is_behind(bytes: &[u8], client: &str, server: &str) {
        let expected = Ok(Step::Done(Client::Behind(client.parse().unwrap(), server.parse().unwrap())));
        let request = [bytes, b"GET / HTTP/1.1\r\n\r\n"].concat();
        assert_eq!(parsed(&request), (expected, bytes.len()), "{}", String::from_utf8_lossy(bytes));
    }

    #[test]
    fn a_client_is_read_and_no_byte_behind_the_header() {
        is_behind(b"PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n", "192.0.2.1:56324", "198.51.100.2:443");
        is_behind(b"PROXY TCP4 1.1.1.1 2.2.2.2 0 65535\r\n", "1.1.1.1:0", "2.2.2.2:65535");
        is_behind(b"PROXY TCP6 2001:db8::1 ::1 1 2\r\n", "[2001:db8::1]:1", "[::1]:2");
        let four = [192, 0, 2, 1, 198, 51, 100, 2, 0xdc, 0x04, 0x01, 0xbb];
        is_behind(&v2(0x21, 0x11, &four), "192.0.2.1:56324", "198.51.100.2:443");
        // Extensions of any content.
        is_behind(
            &v2(0x21, 0x11, &[&four[..], &[2, 0, 1, b'a', 0xff]].concat()),
            "192.0.2.1:56324",
            "198.51.100.2:443",
        );
        let (mut six, one) = ([0; 36], [0x20, 0x01, 0x0d, 0xb8]);
        six[..4].copy_from_slice(&one);
        (six[15], six[31], six[33], six[35]) = (1, 1, 1, 2);
        is_behind(&v2(0x21, 0x21, &six), "[2001:db8::1]:1", "[::1]:2");
    }

    #[test]
    fn some_headers_name_nobody() {
        for bytes in [
            b"PROXY UNKNOWN\r\n".to_vec(),
            b"PROXY UNKNOWN 2001:db8::1 what ever\r\n".to_vec(),
            v2(0x20, 0x00, b""),
            v2(0x20, 0x11, b"short"),
            v2(0x20, 0xff, &[7; 300]),
            v2(0x21, 0x00, b"any"),
            v2(0x21, 0x31, &[0; 216]),
        ] {
            assert_eq!(parsed(&bytes), (Ok(Step::Done(Client::Sender)), bytes.len()), "{bytes:?}");
        }
    }

    #[test]
    fn anything_else_is_malformed() {
        let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(MAX_LINE));
        for bytes in [
            &b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..],
            b"PROXY TCP4 192.0.2.1 198.51.100.2 56324\r\n",
            b"PROXY TCP4 192.0.2.1 198.51.100.2 56324 443 1\r\n",
            b"PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\n...........",
            b"PROXY TCP4  192.0.2.1 198.51.100.2 56324 443\r\n",
            b"PROXY TCP4 192.0.2.1 198.51.100.2 065 443\r\n",
            b"PROXY TCP4 192.0.2.1 198.51.100.2 +65 443\r\n",
            b"PROXY TCP4 192.0.2.1 198.51.100.2 65536 443\r\n",
            b"PROXY TCP4 192.0.2.01 198.51.100.2 5 443\r\n",
            b"PROXY TCP4 ::1 ::1 5 443\r\n",
            b"PROXY TCP6 192.0.2.1 ::1 5 443\r\n",
            b"PROXY TCP5 192.0.2.1 192.0.2.1 5 443\r\n",
            b"PROXY unknown\r\n",
            b"proxy UNKNOWN\r\n",
            b"PROXY TCP4 \xff.0.2.1 198.51.100.2 5 443\r\n",
            long.as_bytes(),
            &v2(0x11, 0x11, &[0; 12]),
            &v2(0x22, 0x11, &[0; 12]),
            &v2(0x21, 0x12, &[0; 12]),
            &v2(0x21, 0x41, &[0; 12]),
            &v2(0x21, 0x11, &[0; 11]),
            &v2(0x21, 0x21, &[0; 35]),
            &v2(0x21, 0x31, &[0; 215]),
            &v2(0x20, 0x00, &[0; MAX_SIZE]),
        ] {
            assert_eq!(parsed(bytes).0, Err(Malformed), "{}", String::from_utf8_lossy(bytes));
        }
    }

    /// Every beginning of a header asks for more, and never for more than there is.
    #[test]
    fn headers_may_come_byte_by_byte() {
        let six = v2(0x21, 0x21, &[9; 60]);
        for header in [&b"PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n"[..], b"PROXY UNKNOWN\r\n", &six] {
            for end in 0..header.len() {
                let Ok(Step::More(more)) = step(&header[..end]) else { panic!("{end}") };
                assert!(more > 0 && end + more <= header.len(), "{end} {more}");
            }
        }
    }
}
