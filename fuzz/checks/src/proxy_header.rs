//! Whatever a connection begins with, the header ends where its own length or CRLF says, within the limits, and how its
//! bytes are cut changes nothing.

use inbound::proxy_header::{Client, MAX_LINE, MAX_SIZE, Malformed, Step, step};

/// What comes of the bytes if each step gets as much as it asks for, or `portion` bytes of that.
fn parsed(bytes: &[u8], portion: usize) -> (Result<Step, Malformed>, usize) {
    let mut taken = 0;
    loop {
        match step(&bytes[..taken]) {
            Ok(Step::More(more)) if taken + more.min(portion) <= bytes.len() => {
                assert!(more > 0 && taken + more <= MAX_SIZE);
                taken += more.min(portion);
            }
            end => return (end, taken),
        }
    }
}

/// Checks what holds for these bytes.
pub fn check(bytes: &[u8]) {
    let (whole, size) = parsed(bytes, usize::MAX);
    let (in_bytes, size_in_bytes) = parsed(bytes, 1);
    match whole {
        Ok(Step::Done(client)) => {
            assert_eq!((in_bytes, size_in_bytes), (whole, size));
            let header = &bytes[..size];
            assert!(size <= if header.starts_with(b"PROXY ") { MAX_LINE } else { MAX_SIZE });
            if let (Client::Behind(source, target), true) = (client, header.starts_with(b"PROXY ")) {
                let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
                assert_eq!(source.is_ipv4(), target.is_ipv4());
                let line =
                    format!("PROXY {family} {} {} {} {}\r\n", source.ip(), target.ip(), source.port(), target.port());
                assert_eq!(step(line.as_bytes()), Ok(Step::Done(client)));
            }
        }
        Err(Malformed) => assert_eq!(in_bytes, Err(Malformed)),
        // It is cut off.
        Ok(Step::More(_)) => assert!(!matches!(in_bytes, Ok(Step::Done(_)))),
    }
}
