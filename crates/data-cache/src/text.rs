//! The text of an answer, written to a pipe as it is made. Bytes that are not for people are escaped.

use core::fmt;

use ipc::sys::{Errno, syscall};

#[cfg(target_arch = "x86_64")]
mod nr {
    pub const WRITE: usize = 1;
    pub const PREAD: usize = 17;
}
#[cfg(target_arch = "aarch64")]
mod nr {
    pub const WRITE: usize = 64;
    pub const PREAD: usize = 67;
}

const EINTR: Errno = Errno(4);

/// What is written. The reader may be gone, or there may be more to say than it takes: then the rest is not written.
pub struct Text {
    file: i32,
    used: usize,
    bytes: [u8; 4096],
    left: usize,
    /// Something did not find room.
    pub is_cut: bool,
}

/// Reads a file from its start; what does not fit is left out.
pub fn read(file: i32, target: &mut [u8]) -> usize {
    let mut size = 0;
    while size < target.len() {
        let rest = &mut target[size..];
        // SAFETY: a buffer with its size.
        match unsafe { syscall(nr::PREAD, [file as usize, rest.as_mut_ptr() as usize, rest.len(), size, 0, 0]) } {
            Ok(0) => break,
            Ok(more) => size += more.min(rest.len()),
            Err(EINTR) => {}
            Err(_) => break,
        }
    }
    size
}

impl Text {
    /// At most `most` bytes to a file.
    pub fn new(file: i32, most: usize) -> Text {
        Text { file, used: 0, bytes: [0; 4096], left: most, is_cut: false }
    }

    /// Bytes that find room yet.
    pub fn room(&self) -> usize {
        if self.is_cut { 0 } else { self.left }
    }

    /// Bytes as they are. All or nothing.
    pub fn raw(&mut self, bytes: &[u8]) {
        if bytes.len() > self.left || self.is_cut {
            self.is_cut = true;
            return;
        }
        self.left -= bytes.len();
        self.put(bytes);
    }

    /// The same if there is no room any more.
    pub fn last(&mut self, bytes: &[u8]) {
        self.put(bytes);
        self.flush();
    }

    fn put(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if self.used == self.bytes.len() {
                self.flush();
            }
            self.bytes[self.used] = byte;
            self.used += 1;
        }
    }

    fn flush(&mut self) {
        let mut at = 0;
        while at < self.used {
            let rest = &self.bytes[at..self.used];
            // SAFETY: a buffer with its size.
            match unsafe { syscall(nr::WRITE, [self.file as usize, rest.as_ptr() as usize, rest.len(), 0, 0, 0]) } {
                Ok(count) => at += count.min(rest.len()),
                Err(EINTR) => {}
                Err(_) => {
                    self.is_cut = true;
                    break;
                }
            }
        }
        self.used = 0;
    }

    /// A key: bytes that are no visible ASCII as `\xHH`, and a backslash too if what follows would make it one of those.
    pub fn key(&mut self, key: &[u8]) {
        for (at, &byte) in key.iter().enumerate() {
            if byte.is_ascii_graphic() && !(byte == b'\\' && escaped(&key[at..]).is_some()) {
                self.raw(&[byte]);
            } else {
                self.byte(byte);
            }
        }
    }

    fn byte(&mut self, byte: u8) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        self.raw(&[b'\\', b'x', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }

    /// A string as PHP code.
    pub fn string(&mut self, bytes: &[u8]) {
        let is_plain = |text: &str| !text.chars().any(char::is_control);
        if core::str::from_utf8(bytes).is_ok_and(is_plain) {
            self.raw(b"'");
            for &byte in bytes {
                if byte == b'\'' || byte == b'\\' {
                    self.raw(b"\\");
                }
                self.raw(&[byte]);
            }
            return self.raw(b"'");
        }
        self.raw(b"\"");
        for chunk in bytes.utf8_chunks() {
            for one in chunk.valid().chars() {
                let mut room = [0; 4];
                let encoded = one.encode_utf8(&mut room).as_bytes();
                match one {
                    '\n' => self.raw(b"\\n"),
                    '\t' => self.raw(b"\\t"),
                    '\r' => self.raw(b"\\r"),
                    '"' | '\\' | '$' => {
                        self.raw(b"\\");
                        self.raw(encoded);
                    }
                    one if one.is_control() => encoded.iter().for_each(|&byte| self.byte(byte)),
                    _ => self.raw(encoded),
                }
            }
            chunk.invalid().iter().for_each(|&byte| self.byte(byte));
        }
        self.raw(b"\"");
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.raw(text.as_bytes());
        Ok(())
    }
}

/// The byte that `\xHH` at the start stands for.
fn escaped(text: &[u8]) -> Option<u8> {
    let [b'\\', b'x', high, low, ..] = text else { return None };
    let digit = |byte: u8| (byte as char).to_digit(16);
    Some((digit(*high)? << 4 | digit(*low)?) as u8)
}

/// The key of a text that [`Text::key`] has made. None: it has more bytes than there is room for.
pub fn unescape<'a>(mut text: &[u8], room: &'a mut [u8]) -> Option<&'a [u8]> {
    let mut used = 0;
    while let Some(&first) = text.first() {
        let (byte, size) = escaped(text).map_or((first, 1), |byte| (byte, 4));
        *room.get_mut(used)? = byte;
        used += 1;
        text = &text[size..];
    }
    Some(&room[..used])
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::{string::String, vec::Vec};

    use super::*;

    fn written(how: impl FnOnce(&mut Text)) -> String {
        let (mut from, to) = UnixStream::pair().unwrap();
        let mut text = Text::new(to.as_raw_fd(), 1 << 15);
        how(&mut text);
        text.last(b"");
        drop(to);
        let mut all = String::new();
        from.read_to_string(&mut all).unwrap();
        all
    }

    #[test]
    fn keys_have_one_text_and_come_back() {
        for (key, text) in [
            (&b"menu.en"[..], "menu.en"),
            (b"App\\Menu", "App\\Menu"),
            (b"a\\x41", "a\\x5cx41"),
            (b"a b\n\0\xff\x1b[2J", "a\\x20b\\x0a\\x00\\xff\\x1b[2J"),
            ("ä".as_bytes(), "\\xc3\\xa4"),
            (b"\\x", "\\x"),
            (b"\\\\x41", "\\\\x5cx41"),
        ] {
            assert_eq!(written(|to| to.key(key)), text);
            let mut room = [0; 64];
            assert_eq!(unescape(text.as_bytes(), &mut room), Some(key), "{text}");
        }
        let all: Vec<u8> = (0..=255).collect();
        let text = written(|to| to.key(&all));
        let mut room = [0; 256];
        assert_eq!(unescape(text.as_bytes(), &mut room), Some(&all[..]));
        assert_eq!(unescape(b"abc", &mut [0; 2]), None);
    }

    #[test]
    fn strings_are_php_code() {
        for (bytes, text) in [
            (&b"it's a \\"[..], "'it\\'s a \\\\'"),
            ("größer".as_bytes(), "'größer'"),
            (b"a\n\"$x\x1b\xff", "\"a\\n\\\"\\$x\\x1b\\xff\""),
            (b"", "''"),
        ] {
            assert_eq!(written(|to| to.string(bytes)), text);
        }
    }

    #[test]
    fn what_has_no_room_is_left_out() {
        let (mut from, to) = UnixStream::pair().unwrap();
        let mut text = Text::new(to.as_raw_fd(), 5);
        text.raw(b"abc");
        text.raw(b"def");
        text.raw(b"g");
        assert!(text.is_cut);
        text.last(b".");
        drop(to);
        let mut all = Vec::new();
        from.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"abc.");
    }
}
