//! A raw client of HTTP/2: it sends the frames it is told to, valid or not, and reads frames to the byte.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::client::connect;

/// What a client says before its first frame.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Types of frames.
pub const DATA: u8 = 0;
/// A head, or trailers.
pub const HEADERS: u8 = 1;
/// The end of a stream by one side.
pub const RST_STREAM: u8 = 3;
/// Settings, or their acknowledgement.
pub const SETTINGS: u8 = 4;
/// A ping, or its acknowledgement.
pub const PING: u8 = 6;
/// The end of a connection.
pub const GOAWAY: u8 = 7;
/// More window.
pub const WINDOW_UPDATE: u8 = 8;
/// More of a head.
pub const CONTINUATION: u8 = 9;

/// Flags of frames.
pub const END_STREAM: u8 = 1;
/// SETTINGS or PING is an acknowledgement.
pub const ACK: u8 = 1;
/// A head is complete.
pub const END_HEADERS: u8 = 4;

/// Error codes.
pub const NO_ERROR: u32 = 0;
/// The peer has broken HTTP/2.
pub const PROTOCOL_ERROR: u32 = 1;
/// Nothing of the request has run.
pub const REFUSED_STREAM: u32 = 7;
/// Nobody wants the stream any more.
pub const CANCEL: u32 = 8;
/// The peer does too much.
pub const ENHANCE_YOUR_CALM: u32 = 11;

/// The setting of the first window of each stream.
pub const INITIAL_WINDOW: u16 = 4;

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its type.
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// Its stream; 0: the connection.
    pub stream: u32,
    /// Its payload.
    pub payload: Vec<u8>,
}

impl Frame {
    /// The error code of RST_STREAM or GOAWAY.
    pub fn code(&self) -> Option<u32> {
        let at = match self.kind {
            RST_STREAM => 0,
            GOAWAY => 4,
            _ => return None,
        };
        Some(u32::from_be_bytes(self.payload.get(at..at + 4)?.try_into().ok()?))
    }

    /// The status of a head, if it is one of HPACK's static table.
    pub fn status(&self) -> Option<u16> {
        // A change of the table's size may come first.
        let first = self.payload.iter().find(|byte| **byte & 0xe0 != 0x20)?;
        [200, 204, 206, 304, 400, 404, 500].get(usize::from(first.checked_sub(0x88)?)).copied()
    }
}

/// The bytes of a frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u32;
    let mut bytes = length.to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

fn text(bytes: &mut Vec<u8>, text: &str) {
    // An integer with a prefix of seven bits.
    let mut rest = text.len();
    if rest < 127 {
        bytes.push(rest as u8);
    } else {
        bytes.push(127);
        rest -= 127;
        while rest >= 128 {
            bytes.push((rest % 128 + 128) as u8);
            rest /= 128;
        }
        bytes.push(rest as u8);
    }
    bytes.extend_from_slice(text.as_bytes());
}

/// Fields as HPACK has them, without its tables.
pub fn fields(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.push(0);
        text(&mut bytes, name);
        text(&mut bytes, value);
    }
    bytes
}

/// The fields of a GET.
pub fn get(path: &str) -> Vec<u8> {
    fields(&[(":method", "GET"), (":scheme", "http"), (":authority", "a.example"), (":path", path)])
}

/// A response, as far as it has come.
#[derive(Debug, Default, Clone)]
pub struct Answer {
    /// Its status, if it is one of HPACK's static table.
    pub status: Option<u16>,
    /// Its body.
    pub body: Vec<u8>,
    /// Whether it is complete.
    pub is_complete: bool,
    /// The error code, if the stream was reset.
    pub reset: Option<u32>,
}

/// A connection.
pub struct Http2 {
    stream: TcpStream,
    /// The responses by stream.
    pub answers: BTreeMap<u32, Answer>,
    /// The error code of GOAWAY.
    pub goaway: Option<u32>,
}

impl Http2 {
    /// Connects and says nothing.
    pub fn silent(port: u16) -> Http2 {
        Http2 { stream: connect(port).expect("the server accepts"), answers: BTreeMap::new(), goaway: None }
    }

    /// Connects with these settings.
    pub fn with(port: u16, settings: &[(u16, u32)]) -> Http2 {
        let mut client = Http2::silent(port);
        let payload: Vec<u8> = settings
            .iter()
            .flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()[..]].concat())
            .collect();
        client.send(&[PREFACE, &frame(SETTINGS, 0, 0, &payload)].concat()).expect("the server reads");
        client
    }

    /// Connects.
    pub fn new(port: u16) -> Http2 {
        Http2::with(port, &[])
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends a request without a body.
    pub fn request(&mut self, stream: u32, fields: &[u8]) {
        // The largest frame that a server takes unless it says otherwise.
        let mut parts = fields.chunks(16_384).peekable();
        let (mut kind, mut flags) = (HEADERS, END_STREAM);
        while let Some(part) = parts.next() {
            flags |= if parts.peek().is_none() { END_HEADERS } else { 0 };
            self.send(&frame(kind, flags, stream, part)).expect("the server reads");
            (kind, flags) = (CONTINUATION, 0);
        }
    }

    /// How long reading waits.
    pub fn wait_at_most(&mut self, time: Duration) {
        self.stream.set_read_timeout(Some(time)).expect("a socket");
    }

    /// Reads a frame. SETTINGS are acknowledged, and responses are noted. An end of input is an error.
    pub fn read(&mut self) -> io::Result<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head)?;
        let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
        let mut payload = vec![0; number(&head[..3]) as usize];
        self.stream.read_exact(&mut payload)?;
        let found = Frame { kind: head[3], flags: head[4], stream: number(&head[5..]) & 0x7fff_ffff, payload };
        match found.kind {
            // A server that has closed may have said more before that.
            SETTINGS if found.flags & ACK == 0 => drop(self.send(&frame(SETTINGS, ACK, 0, &[]))),
            PING if found.flags & ACK == 0 => drop(self.send(&frame(PING, ACK, 0, &found.payload))),
            GOAWAY => self.goaway = found.code(),
            DATA | HEADERS | RST_STREAM => self.note(&found),
            _ => {}
        }
        Ok(found)
    }

    fn note(&mut self, frame: &Frame) {
        let answer = self.answers.entry(frame.stream).or_default();
        match frame.kind {
            DATA => answer.body.extend_from_slice(&frame.payload),
            HEADERS => answer.status = frame.status(),
            _ => answer.reset = frame.code(),
        }
        answer.is_complete |= frame.kind != RST_STREAM && frame.flags & END_STREAM > 0;
    }

    /// Reads until a stream is complete or was reset; panics if the connection ends before.
    pub fn answer(&mut self, stream: u32) -> Answer {
        loop {
            match self.answers.get(&stream) {
                Some(answer) if answer.is_complete || answer.reset.is_some() => return answer.clone(),
                _ => self.read().unwrap_or_else(|error| panic!("stream {stream}: {error}, {:?}", self.goaway)),
            };
        }
    }

    /// Reads until the connection ends. The error code of its GOAWAY, if there was one.
    pub fn end(&mut self) -> Option<u32> {
        loop {
            match self.read() {
                Ok(_) => {}
                Err(error) if [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut].contains(&error.kind()) => {
                    panic!("the connection does not end")
                }
                Err(_) => return self.goaway,
            }
        }
    }

    /// Gives a window.
    pub fn give_window(&mut self, stream: u32, bytes: u32) -> io::Result<()> {
        self.send(&frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes()))
    }
}
