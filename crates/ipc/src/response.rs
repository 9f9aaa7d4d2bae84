//! The head of a response, at the beginning of the response's ring; everything after it is the body.
//!
//! Records of eight bytes and their text: `STATUS` (code, length of the reason), any number of `HEADER` (lengths of name
//! and value), `END`. An informational response (1xx) is such a head too, and another head follows it.

/// First record.
pub const STATUS: u8 = 1;
/// A header line.
pub const HEADER: u8 = 2;
/// Last record.
pub const END: u8 = 3;
/// Bytes of a head at most; PHP's larger one becomes a 500.
pub const MAX_SIZE: usize = 256 * 1024;

/// A record's fixed part.
pub fn record(tag: u8, short: u16, long: u32) -> [u8; 8] {
    let (s, l) = (short.to_le_bytes(), long.to_le_bytes());
    [tag, 0, s[0], s[1], l[0], l[1], l[2], l[3]]
}

/// The bytes are no head.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed;

/// One record read back.
#[derive(Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// Code 100–999 and reason (may be empty).
    Status(u16, &'a [u8]),
    /// Name and value, unchecked bytes.
    Header(&'a [u8], &'a [u8]),
    /// The head is complete.
    End,
}

/// Reads the record at the start of `bytes`: it and its size, or `None` if more bytes are needed.
pub fn read(bytes: &[u8]) -> Result<Option<(Record<'_>, usize)>, Malformed> {
    let Some((fixed, rest)) = bytes.split_first_chunk::<8>() else { return Ok(None) };
    let short = u16::from_le_bytes([fixed[2], fixed[3]]);
    let long = u32::from_le_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]) as usize;
    if long > MAX_SIZE || fixed[1] != 0 {
        return Err(Malformed);
    }
    match fixed[0] {
        STATUS if (100..=999).contains(&short) => {
            Ok(rest.get(..long).map(|reason| (Record::Status(short, reason), 8 + long)))
        }
        HEADER if short > 0 => {
            let name = short as usize;
            Ok(rest.get(..name + long).map(|text| (Record::Header(&text[..name], &text[name..]), 8 + name + long)))
        }
        END if short == 0 && long == 0 => Ok(Some((Record::End, 8))),
        _ => Err(Malformed),
    }
}

/// Size of the complete head at the start of `bytes`, its end included; `None` if more bytes are needed.
pub fn complete(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    let mut at = 0;
    loop {
        if at > MAX_SIZE {
            return Err(Malformed);
        }
        match read(&bytes[at..])? {
            None => return Ok(None),
            Some((Record::End, size)) if at > 0 => return Ok(Some(at + size)),
            Some((Record::Status(..), size)) if at == 0 => at += size,
            Some((Record::Header(..), size)) if at > 0 => at += size,
            Some(_) => return Err(Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_complete_with_its_end() {
        let bytes = [&record(STATUS, 404, 2)[..], b"No", &record(HEADER, 1, 2), b"abc", &record(END, 0, 0)].concat();
        for cut in 0..bytes.len() {
            assert_eq!(complete(&bytes[..cut]), Ok(None));
        }
        assert_eq!(complete(&bytes), Ok(Some(bytes.len())));
        assert_eq!(read(&bytes), Ok(Some((Record::Status(404, b"No"), 10))));
        assert_eq!(read(&bytes[10..]), Ok(Some((Record::Header(b"a", b"bc"), 11))));
    }

    #[test]
    fn nonsense_is_malformed() {
        assert_eq!(complete(&record(END, 0, 0)), Err(Malformed));
        assert_eq!(complete(&record(STATUS, 99, 0)), Err(Malformed));
        assert_eq!(complete(&record(STATUS, 200, u32::MAX)), Err(Malformed));
        assert_eq!(complete(&[9; 8]), Err(Malformed));
        let twice = [record(STATUS, 200, 0), record(STATUS, 200, 0)].concat();
        assert_eq!(complete(&twice), Err(Malformed));
    }
}
