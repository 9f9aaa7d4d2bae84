//! Follows the frames of a connection by their headers (RFC 9113 §4.1), and finds floods of frames that carry nothing. h2
//! responds to such frames for as long as they come. No I/O.

use std::time::Instant;

/// The connection preface that comes before the first frame.
const PREFACE: usize = 24;
const HEADER: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;

/// Frames that carry nothing and may come at once, and how many more for each second. A request allows [`PER_REQUEST`] more,
/// and so do [`BYTES`] bytes of responses: a client that reads sends WINDOW_UPDATE for what it has read.
const FRAMES: u32 = 2_000;
const PER_SECOND: u32 = 100;
const PER_REQUEST: u32 = 4;
const BYTES: usize = 4 * 1024;

/// Where the bytes of a connection are, and how many frames have carried nothing.
pub struct Frames {
    /// Bytes of the preface or of a frame that are still to come.
    left: usize,
    header: [u8; HEADER],
    known: usize,
    spent: u32,
    since: Instant,
    /// Bytes written that have not allowed a frame yet.
    written: usize,
}

/// Too many frames carry nothing.
#[derive(Debug, PartialEq, Eq)]
pub struct Flood;

impl Default for Frames {
    /// At the first byte of a connection.
    fn default() -> Frames {
        Frames { left: PREFACE, header: [0; HEADER], known: 0, spent: 0, since: Instant::now(), written: 0 }
    }
}

impl Frames {
    /// Follows what the client has sent.
    pub fn follow(&mut self, mut bytes: &[u8]) -> Result<(), Flood> {
        loop {
            let skipped = self.left.min(bytes.len());
            self.left -= skipped;
            bytes = &bytes[skipped..];
            if bytes.is_empty() {
                return Ok(());
            }
            let count = (HEADER - self.known).min(bytes.len());
            self.header[self.known..self.known + count].copy_from_slice(&bytes[..count]);
            self.known += count;
            bytes = &bytes[count..];
            if self.known == HEADER {
                self.known = 0;
                self.frame()?;
            }
        }
    }

    /// So many bytes were written to the client.
    pub fn wrote(&mut self, count: usize) {
        let written = self.written + count;
        self.written = written % BYTES;
        self.spent = self.spent.saturating_sub(u32::try_from(written / BYTES).unwrap_or(u32::MAX));
    }

    fn frame(&mut self) -> Result<(), Flood> {
        let [high, middle, low, kind, ..] = self.header;
        self.left = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        match kind {
            HEADERS => self.spent = self.spent.saturating_sub(PER_REQUEST),
            DATA if self.left > 0 => {}
            _ => self.spent += 1,
        }
        if self.spent > FRAMES {
            let back = self.since.elapsed().as_secs().saturating_mul(u64::from(PER_SECOND));
            self.spent = self.spent.saturating_sub(back.try_into().unwrap_or(u32::MAX));
            self.since = Instant::now();
        }
        if self.spent > FRAMES { Err(Flood) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, length: usize) -> Vec<u8> {
        let mut bytes = vec![0, (length >> 8) as u8, length as u8, kind, 0, 0, 0, 0, 1];
        bytes.resize(HEADER + length, 7);
        bytes
    }

    fn begun() -> Frames {
        let mut frames = Frames::default();
        frames.follow(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        frames
    }

    #[test]
    fn frames_are_found_however_bytes_arrive() {
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        for (kind, length) in [(4, 6), (1, 300), (0, 5000), (6, 8), (0, 0), (9, 1)] {
            bytes.extend(frame(kind, length));
        }
        for size in [1, 7, 9, 10, 1000, bytes.len()] {
            let mut frames = Frames::default();
            bytes.chunks(size).for_each(|part| frames.follow(part).unwrap());
            // SETTINGS was forgiven for HEADERS; PING, the empty DATA and CONTINUATION count.
            assert_eq!((frames.spent, frames.left, frames.known), (3, 0, 0), "in parts of {size}");
        }
    }

    #[test]
    fn floods_are_found() {
        let mut frames = begun();
        let flood = frame(6, 8).repeat(FRAMES as usize);
        assert_eq!(frames.follow(&flood), Ok(()));
        assert_eq!(frames.follow(&frame(6, 8)), Err(Flood));
        frames.since = Instant::now().checked_sub(std::time::Duration::from_secs(2)).unwrap();
        assert_eq!(frames.follow(&frame(6, 8)), Ok(()));
    }

    #[test]
    fn a_client_that_reads_may_say_so() {
        let mut frames = begun();
        for _ in 0..10 * FRAMES {
            frames.wrote(BYTES / 2);
            frames.wrote(BYTES / 2);
            frames.follow(&frame(8, 4)).unwrap();
        }
    }
}
