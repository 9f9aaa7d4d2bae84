//! Reads numbers and strings from bytes, from the front to the back, and nothing behind their end.

/// What is left to be read.
#[derive(Clone, Copy)]
pub struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    /// All of these.
    pub const fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor(bytes)
    }

    /// How many bytes are left.
    pub const fn left(&self) -> usize {
        self.0.len()
    }

    /// The next bytes.
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// The next number of four bytes, the lowest first.
    pub fn number(&mut self) -> Option<u32> {
        let bytes = self.take(4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }

    /// A number of bytes, and so many bytes.
    pub fn counted(&mut self) -> Option<&'a [u8]> {
        let count = self.number()?;
        self.take(count as usize)
    }
}
