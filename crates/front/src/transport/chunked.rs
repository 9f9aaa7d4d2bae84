//! Where a chunked body ends (RFC 9112 §7.1).
//!
//! hyper decodes the body; this scanner only finds its end. It is stricter than hyper: line ends are CR LF, sizes have at
//! most fifteen digits, and lines and trailers are bounded. Both read every body that the scanner accepts alike; the fuzz
//! target `framing` compares them.

/// Longest line: of a chunk's size with its extensions, or of one trailer.
const MAX_LINE: usize = 4 * 1024;
/// Bytes that all trailers and chunk extensions of a body may have together.
const MAX_EXTRA: usize = 16 * 1024;
/// Hexadecimal digits of a size: all that fit into 60 bits.
const MAX_DIGITS: usize = 15;

/// The body is not framed as its head says.
#[derive(Debug, PartialEq, Eq)]
pub struct Broken;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// In the digits of a size.
    Size {
        digits: usize,
        size: u64,
    },
    /// Behind the digits: white space and extensions.
    Extension {
        size: u64,
    },
    /// Behind the CR of a size's line.
    SizeEnd {
        size: u64,
    },
    Data {
        left: u64,
    },
    DataCr,
    DataLf,
    /// In a trailer, or where one may begin.
    Trailer {
        length: usize,
    },
    /// Behind the CR of a trailer's line.
    TrailerEnd {
        length: usize,
    },
    End,
}

/// Follows one body.
#[derive(Clone, Debug)]
pub struct Scanner {
    at: At,
    line: usize,
    extra: usize,
}

impl Default for Scanner {
    fn default() -> Scanner {
        Scanner { at: At::Size { digits: 0, size: 0 }, line: 0, extra: 0 }
    }
}

impl Scanner {
    /// Whether the body is complete.
    pub fn is_at_end(&self) -> bool {
        self.at == At::End
    }

    /// Goes through `bytes` and returns how many of them belong to the body.
    pub fn follow(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        let mut index = 0;
        while index < bytes.len() && self.at != At::End {
            if let At::Data { left } = self.at {
                let count = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len() - index);
                let left = left - count as u64;
                self.at = if left == 0 { At::DataCr } else { At::Data { left } };
                index += count;
                continue;
            }
            self.step(bytes[index])?;
            index += 1;
        }
        Ok(index)
    }

    fn step(&mut self, byte: u8) -> Result<(), Broken> {
        self.at = match (self.at, byte) {
            (At::Size { digits, size }, _) if byte.is_ascii_hexdigit() && digits < MAX_DIGITS => {
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                At::Size { digits: digits + 1, size: size << 4 | u64::from(digit) }
            }
            (At::Size { digits: 1.., size }, b'\r') => At::SizeEnd { size },
            (At::Size { digits: 1.., size }, b' ' | b'\t' | b';') => self.extend(At::Extension { size })?,
            (At::Extension { size }, b'\r') => At::SizeEnd { size },
            (At::Extension { size }, _) if byte != b'\n' => self.extend(At::Extension { size })?,
            (At::SizeEnd { size: 0 }, b'\n') => self.next_line(At::Trailer { length: 0 }),
            (At::SizeEnd { size }, b'\n') => self.next_line(At::Data { left: size }),
            (At::DataCr, b'\r') => At::DataLf,
            (At::DataLf, b'\n') => At::Size { digits: 0, size: 0 },
            (At::Trailer { length }, b'\r') => At::TrailerEnd { length },
            (At::Trailer { length }, _) if byte != b'\n' => self.extend(At::Trailer { length: length + 1 })?,
            (At::TrailerEnd { length: 0 }, b'\n') => At::End,
            (At::TrailerEnd { .. }, b'\n') => self.next_line(At::Trailer { length: 0 }),
            _ => return Err(Broken),
        };
        Ok(())
    }

    /// Counts a byte that is neither of a size nor of data.
    fn extend(&mut self, next: At) -> Result<At, Broken> {
        self.line += 1;
        self.extra += 1;
        if self.line > MAX_LINE || self.extra > MAX_EXTRA { Err(Broken) } else { Ok(next) }
    }

    fn next_line(&mut self, next: At) -> At {
        self.line = 0;
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(bytes: &[u8]) -> Result<(usize, bool), Broken> {
        let mut scanner = Scanner::default();
        let count = scanner.follow(bytes)?;
        // The same bytes, one at a time.
        let mut slow = Scanner::default();
        let mut one_by_one = 0;
        for byte in bytes {
            one_by_one += slow.follow(std::slice::from_ref(byte))?;
        }
        assert_eq!((count, scanner.at), (one_by_one, slow.at));
        Ok((count, scanner.is_at_end()))
    }

    #[test]
    fn bodies_end_where_they_should() {
        for (body, end) in [
            ("0\r\n\r\n", 5),
            ("3\r\nabc\r\n0\r\n\r\nGET", 13),
            ("03;a=b\r\nabc\r\n0\r\n\r\n", 18),
            ("3 \t\r\nabc\r\n00\r\n\r\n", 16),
            ("a\r\n0123456789\r\n0\r\nX: y\r\nZ: a\r\n\r\nPOST", 32),
        ] {
            assert_eq!(scan(body.as_bytes()), Ok((end, true)), "{body:?}");
        }
        assert_eq!(scan(b"5\r\nab"), Ok((5, false)));
    }

    #[test]
    fn broken_bodies_are_known() {
        for body in [
            "\r\n",
            "g\r\n",
            "3\nabc",
            "3\r\nabcd\r\n",
            "3\r\nabc\n0\r\n\r\n",
            "0\r\n\n",
            "0\r\nX: y\n\r\n",
            "-1\r\n",
            "0x3\r\nabc",
            " 3\r\nabc",
            "3;a\nb\r\n",
            "1000000000000000\r\n",
            "3\r\rabc",
            "0\r\n\rX",
        ] {
            assert_eq!(scan(body.as_bytes()), Err(Broken), "{body:?}");
        }
        assert_eq!(scan(format!("1;{}\r\na\r\n", "x".repeat(5000)).as_bytes()), Err(Broken));
        assert_eq!(scan(format!("0\r\n{}\r\n", "X: y\r\n".repeat(6000)).as_bytes()), Err(Broken));
    }
}
