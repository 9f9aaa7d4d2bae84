//! The head of a request as PHP wants it: written once by the front, read in place by the worker's copy.
//!
//! A [`RequestHead`], then one [`Variable`] after the other, each with its name and its value, both followed by a zero
//! byte and the whole padded to eight. Names are already spelled as in `$_SERVER`. The fixed part has the offset of each
//! value that the SAPI itself needs, so that the worker neither searches nor parses.

/// A range of the head; the byte after it is zero. Length 0 and offset 0: absent.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// From the beginning of the head.
    pub offset: u32,
    /// In bytes, without the zero.
    pub length: u32,
}

/// The fixed part.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestHead {
    /// Bytes of the whole head.
    pub size: u32,
    /// Number of variables.
    pub variables: u32,
    /// Bytes of body; -1 if the client did not say (chunked).
    pub content_length: i64,
    /// GET, POST, …
    pub method: Span,
    /// As the client sent it.
    pub uri: Span,
    /// Without the question mark.
    pub query: Span,
    /// Absolute path of the script to run.
    pub script: Span,
    /// Content-Type.
    pub content_type: Span,
    /// All cookies, folded.
    pub cookies: Span,
    /// Authorization.
    pub authorization: Span,
}

/// A variable of `$_SERVER`, followed by its name, a zero, its value, a zero, and padding to eight.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Bytes of the name.
    pub name: u32,
    /// Bytes of the value.
    pub value: u32,
}

/// The head does not fit into [`crate::layout::HEAD_SIZE`].
#[derive(Debug, PartialEq, Eq)]
pub struct TooLarge;

/// Writes a head into private memory.
pub struct Writer<'a> {
    buffer: &'a mut [u8],
    at: usize,
    /// The fixed part, filled in by the caller and stored by [`Writer::finish`].
    pub head: RequestHead,
}

impl<'a> Writer<'a> {
    /// Begins a head in `buffer`.
    pub fn new(buffer: &'a mut [u8]) -> Writer<'a> {
        Writer { buffer, at: size_of::<RequestHead>(), head: RequestHead::default() }
    }

    /// Appends a variable whose name and value come in pieces. Returns where the value is.
    pub fn add(&mut self, name: &[&[u8]], value: &[&[u8]]) -> Result<Span, TooLarge> {
        let sizes = Variable { name: total(name), value: total(value) };
        let strings = self.at + size_of::<Variable>();
        let value_at = strings + sizes.name as usize + 1;
        let end = (value_at + sizes.value as usize + 1).next_multiple_of(8);
        if end > self.buffer.len() {
            return Err(TooLarge);
        }
        self.put(self.at, &[&sizes.name.to_ne_bytes(), &sizes.value.to_ne_bytes()]);
        self.put(strings, name);
        self.put(value_at, value);
        self.buffer[value_at - 1] = 0;
        self.buffer[value_at + sizes.value as usize..end].fill(0);
        self.at = end;
        self.head.variables += 1;
        Ok(Span { offset: value_at as u32, length: sizes.value })
    }

    /// Appends a header as `HTTP_NAME`. `None` if its name has anything but letters, digits and dashes.
    pub fn add_header(&mut self, name: &[u8], value: &[&[u8]]) -> Result<Option<Span>, TooLarge> {
        const PREFIX: &[u8] = b"HTTP_";
        let at = self.at + size_of::<Variable>();
        let before = (self.at, self.head.variables);
        let span = self.add(&[PREFIX, name], value)?;
        for byte in &mut self.buffer[at + PREFIX.len()..at + PREFIX.len() + name.len()] {
            *byte = match *byte {
                letter @ b'a'..=b'z' => letter - 32,
                same @ (b'A'..=b'Z' | b'0'..=b'9') => same,
                b'-' => b'_',
                _ => {
                    (self.at, self.head.variables) = before;
                    return Ok(None);
                }
            };
        }
        Ok(Some(span))
    }

    /// Appends variables that were written by another writer and taken with [`Writer::variables`].
    pub fn append(&mut self, variables: &[u8], count: u32) -> Result<(), TooLarge> {
        let target = self.buffer.get_mut(self.at..self.at + variables.len()).ok_or(TooLarge)?;
        target.copy_from_slice(variables);
        self.at += variables.len();
        self.head.variables += count;
        Ok(())
    }

    /// The variables written so far, as bytes, and how many.
    pub fn variables(&self) -> (&[u8], u32) {
        (&self.buffer[size_of::<RequestHead>()..self.at], self.head.variables)
    }

    /// Stores the fixed part and returns the head's size.
    pub fn finish(mut self) -> Result<usize, TooLarge> {
        if self.at > self.buffer.len() {
            return Err(TooLarge);
        }
        self.head.size = self.at as u32;
        // SAFETY: RequestHead is made of integers without padding (asserted below), so its bytes are all initialised.
        let bytes = unsafe {
            core::slice::from_raw_parts(core::ptr::from_ref(&self.head).cast::<u8>(), size_of::<RequestHead>())
        };
        self.buffer[..bytes.len()].copy_from_slice(bytes);
        Ok(self.at)
    }

    fn put(&mut self, mut at: usize, pieces: &[&[u8]]) {
        for piece in pieces {
            self.buffer[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
    }
}

/// Method and target of a head that another process may be writing to; copied before. `None` if they are not there.
pub fn request_line(head: &[u8]) -> Option<(&[u8], &[u8])> {
    let word = |at: usize| Some(u32::from_ne_bytes(head.get(at..at + 4)?.try_into().ok()?) as usize);
    let span = |at: usize| {
        let offset = word(at)?;
        head.get(offset..offset.checked_add(word(at + 4)?)?).filter(|text| !text.is_empty())
    };
    Some((span(core::mem::offset_of!(RequestHead, method))?, span(core::mem::offset_of!(RequestHead, uri))?))
}

/// The value of a variable (`HTTP_USER_AGENT`) of a head that another process may be writing to; copied before.
pub fn variable<'a>(head: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let word = |at: usize| Some(u32::from_ne_bytes(head.get(at..at.checked_add(4)?)?.try_into().ok()?) as usize);
    let (count, mut at) = (word(core::mem::offset_of!(RequestHead, variables))?, size_of::<RequestHead>());
    for _ in 0..count {
        let (name_size, value_size) = (word(at)?, word(at + 4)?);
        let name_at = at + size_of::<Variable>();
        let value_at = name_at.checked_add(name_size)?.checked_add(1)?;
        let end = value_at.checked_add(value_size)?;
        if head.get(name_at..value_at - 1)? == name {
            return head.get(value_at..end);
        }
        at = end.checked_add(1)?.checked_next_multiple_of(8)?;
    }
    None
}

fn total(pieces: &[&[u8]]) -> u32 {
    // The sum of slices in one address space fits usize; beyond u32 it does not fit the head either.
    pieces.iter().map(|piece| piece.len()).sum::<usize>().min(u32::MAX as usize / 4) as u32
}

const _: () = assert!(size_of::<RequestHead>() == 4 + 4 + 8 + 7 * 8 && size_of::<RequestHead>() % 8 == 0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_found_and_nonsense_is_not() {
        let mut buffer = [0; 512];
        let mut writer = Writer::new(&mut buffer);
        writer.head.method = writer.add(&[b"REQUEST_METHOD"], &[b"GET"]).unwrap();
        writer.head.uri = writer.add(&[b"REQUEST_URI"], &[b"/a", b"?b"]).unwrap();
        writer.add_header(b"user-agent", &[b"me"]).unwrap();
        let size = writer.finish().unwrap();
        assert_eq!(request_line(&buffer), Some((&b"GET"[..], &b"/a?b"[..])));
        assert_eq!(variable(&buffer, b"HTTP_USER_AGENT"), Some(&b"me"[..]));
        assert_eq!(variable(&buffer, b"HTTP_COOKIE"), None);
        // Whatever a hostile worker makes of it, nothing is read beyond its end.
        for at in 0..size {
            for value in [0, 1, 0x7f, 0xff] {
                let mut broken = buffer;
                broken[at] = value;
                let _ = (request_line(&broken), variable(&broken, b"HTTP_COOKIE"));
                broken[..at].fill(value);
                let _ = (request_line(&broken[..at]), variable(&broken, b"HTTP_COOKIE"));
            }
        }
    }
}
