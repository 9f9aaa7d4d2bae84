//! HTTP/1.1 responses as a client reads them: enough to know where each ends, what its status is and what its body holds.

use std::fmt::Write;

use xxhash_rust::xxh3::xxh3_64;

/// Bytes of a head at most.
const MAX_HEAD: usize = 64 << 10;
/// Bytes of a body at most.
pub const MAX_BODY: usize = 256 << 20;
/// Lines of a head at most.
const MAX_HEADERS: usize = 128;

/// One response while it comes.
#[derive(Default)]
pub struct ResponseReader {
    stage: Stage,
    /// A head, or a chunk's line, that came in pieces.
    partial: Vec<u8>,
    /// The body, unless all of it came with the end of the head.
    body: Vec<u8>,
    status: u16,
    /// The connection is not used again.
    closes: bool,
    location: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Head,
    /// So many bytes of the body are missing.
    Sized(usize),
    /// The line before a chunk.
    ChunkLine,
    /// Inside a chunk, with the line end after it.
    Chunk(usize),
    /// After the last chunk.
    Trailers,
    ToTheEnd,
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Bytes of the body.
    pub length: usize,
    /// xxh3 of the body.
    pub hash: u64,
    /// Whether the body is one that was asked for.
    pub is_expected: bool,
    /// The server closes the connection.
    pub closes: bool,
}

/// What a body has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Anything.
    Any,
    /// These bytes, by their xxh3.
    Hash(u64),
    /// So many bytes.
    Length(usize),
    /// It has this in it.
    Contains(Vec<u8>),
}

impl Expected {
    /// Whether a body is that.
    pub fn holds(&self, body: &[u8]) -> bool {
        match self {
            Expected::Any => true,
            Expected::Hash(hash) => xxh3_64(body) == *hash,
            Expected::Length(length) => body.len() == *length,
            Expected::Contains(words) => contains(body, words),
        }
    }
}

fn contains(body: &[u8], words: &[u8]) -> bool {
    words.is_empty() || body.windows(words.len()).any(|window| window == words)
}

impl ResponseReader {
    /// Takes bytes of the connection. `Some`: the response is whole; what follows it was not asked for.
    ///
    /// # Errors
    ///
    /// What is wrong with the response.
    pub fn feed(&mut self, mut data: &[u8], is_head: bool, expected: &Expected) -> Result<Option<Response>, String> {
        loop {
            match self.stage {
                Stage::Head => match self.head(data, is_head)? {
                    Some(rest) => data = rest,
                    None => return Ok(None),
                },
                Stage::Sized(missing) if data.len() >= missing && self.body.is_empty() => {
                    return self.end(&data[..missing], data.len() > missing, expected);
                }
                Stage::Sized(missing) => {
                    let taken = missing.min(data.len());
                    self.keep(&data[..taken])?;
                    if taken == missing {
                        return self.end_kept(data.len() > taken, expected);
                    }
                    self.stage = Stage::Sized(missing - taken);
                    return Ok(None);
                }
                Stage::ChunkLine | Stage::Trailers => {
                    let Some(line) = self.line(&mut data)? else { return Ok(None) };
                    if self.stage == Stage::ChunkLine {
                        let size = line.split(';').next().unwrap_or_default().trim();
                        let size = usize::from_str_radix(size, 16).map_err(|_| format!("a chunk of {size:?} bytes"))?;
                        if size > MAX_BODY {
                            return Err(format!("a chunk of {size} bytes"));
                        }
                        self.stage = if size == 0 { Stage::Trailers } else { Stage::Chunk(size + 2) };
                    } else if line.is_empty() {
                        return self.end_kept(!data.is_empty(), expected);
                    }
                }
                Stage::Chunk(missing) => {
                    let taken = missing.min(data.len());
                    // The last two are the line end.
                    let of_body = taken.min(missing.saturating_sub(2));
                    self.keep(&data[..of_body])?;
                    data = &data[taken..];
                    self.stage = if taken == missing { Stage::ChunkLine } else { Stage::Chunk(missing - taken) };
                    if data.is_empty() {
                        return Ok(None);
                    }
                }
                Stage::ToTheEnd => {
                    self.keep(data)?;
                    return Ok(None);
                }
            }
        }
    }

    /// The connection has ended. `None`: before anything of a response.
    ///
    /// # Errors
    ///
    /// In the middle of a response.
    pub fn ended(&mut self, expected: &Expected) -> Result<Option<Response>, String> {
        match self.stage {
            Stage::ToTheEnd => self.end_kept(false, expected),
            Stage::Head if self.partial.is_empty() => Ok(None),
            _ => Err("the connection ended in the middle of a response".to_owned()),
        }
    }

    /// The body so far, and where a redirect leads.
    pub fn seen(&self) -> (&[u8], &str) {
        (&self.body, &self.location)
    }

    fn keep(&mut self, data: &[u8]) -> Result<(), String> {
        if self.body.len() + data.len() > MAX_BODY {
            return Err(format!("a body of more than {} MiB", MAX_BODY >> 20));
        }
        self.body.extend_from_slice(data);
        Ok(())
    }

    fn end_kept(&mut self, has_more: bool, expected: &Expected) -> Result<Option<Response>, String> {
        let body = std::mem::take(&mut self.body);
        let response = self.end(&body, has_more, expected);
        self.body = body;
        response
    }

    fn end(&mut self, body: &[u8], has_more: bool, expected: &Expected) -> Result<Option<Response>, String> {
        if has_more {
            return Err("more than one response to one request".to_owned());
        }
        if self.body.is_empty() && *expected == Expected::Any {
            // Asked for to be shown.
            self.body.extend_from_slice(body);
        }
        let is_expected = expected.holds(body);
        let hash = match expected {
            Expected::Hash(hash) if is_expected => *hash,
            Expected::Length(_) | Expected::Contains(_) if is_expected => 0,
            _ => xxh3_64(body),
        };
        let (status, closes) = (self.status, self.closes);
        self.stage = Stage::Head;
        Ok(Some(Response { status, length: body.len(), hash, is_expected, closes }))
    }

    /// For the next response of the connection, or of a new one.
    pub fn clear(&mut self) {
        self.stage = Stage::Head;
        self.partial.clear();
        self.body.clear();
    }

    /// A line that ends in this piece, or has to be continued.
    fn line(&mut self, data: &mut &[u8]) -> Result<Option<String>, String> {
        let Some(end) = data.iter().position(|byte| *byte == b'\n') else {
            self.hold(data)?;
            return Ok(None);
        };
        self.hold(&data[..end])?;
        *data = &data[end + 1..];
        let line = String::from_utf8_lossy(&self.partial).trim_end_matches('\r').to_owned();
        self.partial.clear();
        Ok(Some(line))
    }

    fn hold(&mut self, data: &[u8]) -> Result<(), String> {
        if self.partial.len() + data.len() > MAX_HEAD {
            return Err(format!("a head of more than {} KiB", MAX_HEAD >> 10));
        }
        self.partial.extend_from_slice(data);
        Ok(())
    }

    /// Reads a head; gives what follows it, if it is whole.
    fn head<'a>(&mut self, data: &'a [u8], is_head: bool) -> Result<Option<&'a [u8]>, String> {
        let held = self.partial.len();
        if held > 0 {
            // What follows the head may come with it.
            self.partial.extend_from_slice(data);
        }
        let whole = std::mem::take(&mut self.partial);
        let bytes = if held > 0 { &whole[..] } else { data };
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        match response.parse(bytes) {
            Err(error) => {
                Err(format!("no HTTP response: {error}: {:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(60)])))
            }
            Ok(httparse::Status::Partial) => {
                if held > 0 {
                    self.partial = whole;
                    self.hold(&[])?;
                } else {
                    self.hold(data)?;
                }
                Ok(None)
            }
            Ok(httparse::Status::Complete(length)) => {
                let stage = self.note(&response, is_head)?;
                // All that was held before belongs to the head, or there would have been no need of this piece.
                let rest = &data[length - held..];
                // 1xx: the response itself follows.
                if !(100..200).contains(&self.status) {
                    self.stage = stage;
                } else if rest.is_empty() {
                    return Ok(None);
                }
                Ok(Some(rest))
            }
        }
    }

    fn note(&mut self, response: &httparse::Response<'_, '_>, is_head: bool) -> Result<Stage, String> {
        self.status = response.code.unwrap_or(0);
        self.closes = response.version == Some(0);
        self.location.clear();
        self.body.clear();
        let (mut length, mut is_chunked) = (None, false);
        for header in response.headers.iter() {
            let name = header.name;
            if name.eq_ignore_ascii_case("content-length") {
                let text = std::str::from_utf8(header.value).unwrap_or_default().trim();
                length = Some(text.parse().map_err(|_| format!("a Content-Length of {text:?}"))?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                is_chunked = header.value.to_ascii_lowercase().ends_with(b"chunked");
            } else if name.eq_ignore_ascii_case("connection") {
                let value = header.value.to_ascii_lowercase();
                self.closes = contains(&value, b"close") || self.closes && !contains(&value, b"keep-alive");
            } else if name.eq_ignore_ascii_case("location") {
                let _ = write!(self.location, "{}", String::from_utf8_lossy(header.value));
            }
        }
        let has_none = is_head || matches!(self.status, 204 | 304);
        Ok(match (has_none, is_chunked, length) {
            (true, _, _) => Stage::Sized(0),
            (_, true, _) => Stage::ChunkLine,
            (_, _, Some(length)) => Stage::Sized(length),
            _ => {
                self.closes = true;
                Stage::ToTheEnd
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All pieces of one length after the other.
    fn read(text: &[u8], piece: usize, expected: &Expected) -> Result<Option<Response>, String> {
        let mut reader = ResponseReader::default();
        for part in text.chunks(piece) {
            if let Some(response) = reader.feed(part, false, expected)? {
                return Ok(Some(response));
            }
        }
        reader.ended(expected)
    }

    #[test]
    fn responses_in_pieces() {
        let sized = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        let chunked =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\nX: y\r\n\r\n";
        let ending = b"HTTP/1.0 200 OK\r\n\r\nhello";
        let early = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
        for (text, closes) in [(&sized[..], false), (chunked, false), (ending, true), (early, true)] {
            for piece in 1..=text.len() {
                let shown = String::from_utf8_lossy(text);
                let response = read(text, piece, &Expected::Hash(xxh3_64(b"hello"))).expect(&shown).expect(&shown);
                assert_eq!(
                    (response.status, response.length, response.is_expected),
                    (200, 5, true),
                    "{shown} by {piece}"
                );
                assert_eq!(response.closes, closes, "{shown}");
            }
        }
    }

    #[test]
    fn bodies_are_checked() {
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        let is_expected =
            |expected: Expected| read(text, 100, &expected).expect("a response").expect("whole").is_expected;
        assert!(
            is_expected(Expected::Any)
                && is_expected(Expected::Length(5))
                && is_expected(Expected::Contains(b"ell".to_vec()))
        );
        assert!(
            !is_expected(Expected::Hash(1))
                && !is_expected(Expected::Length(4))
                && !is_expected(Expected::Contains(b"no".to_vec()))
        );
    }

    #[test]
    fn what_is_no_response_is_an_error() {
        for text in [
            &b"SSH-2.0-OpenSSH_9.2\r\n"[..],
            b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhello",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"HTTP/1.1 200 OK\r\nX:",
        ] {
            read(text, 7, &Expected::Any).expect_err(&String::from_utf8_lossy(text));
        }
        assert_eq!(read(b"", 7, &Expected::Any), Ok(None));
    }

    #[test]
    fn responses_without_a_body() {
        let mut reader = ResponseReader::default();
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n";
        assert!(reader.feed(head, true, &Expected::Any).expect("a head").is_some());
        let none = b"HTTP/1.1 304 Not Modified\r\n\r\n";
        assert_eq!(reader.feed(none, false, &Expected::Any).expect("a head").expect("whole").status, 304);
    }
}
