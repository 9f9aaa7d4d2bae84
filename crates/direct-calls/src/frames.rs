//! Where functions begin and end, by the unwind tables: `.eh_frame_hdr` has them sorted (Linux Standard Base, "Exception Frames").

use core::ops::Range;

/// Bytes at the address at which they are loaded.
#[derive(Clone, Copy)]
pub struct Bytes<'a> {
    /// Where they begin.
    pub address: u64,
    /// Themselves.
    pub bytes: &'a [u8],
}

impl Bytes<'_> {
    /// Four of them; `None` beyond them.
    #[must_use]
    pub fn word(&self, address: u64) -> Option<u32> {
        let at = usize::try_from(address.checked_sub(self.address)?).ok()?;
        let word = self.bytes.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes(word.try_into().ok()?))
    }

    /// An address, as its distance from another.
    #[must_use]
    pub fn distance(&self, address: u64, from: u64) -> Option<u64> {
        Some(from.wrapping_add_signed(i64::from(i32::from_le_bytes(self.word(address)?.to_le_bytes()))))
    }
}

/// Version 1, the address of `.eh_frame` as a distance from itself, the number of entries as 4 bytes, entries as two distances of 4 bytes
/// from the table: what the linkers of GNU and LLVM write.
const HEADER: u32 = u32::from_le_bytes([1, 0x1b, 0x03, 0x3b]);

/// The functions of a library, as addresses. Empty if the table is of another kind.
///
/// `tables` holds `.eh_frame_hdr`, at `header`, and `.eh_frame`. An entry that does not lead to a description of the same function is left out.
#[must_use]
pub fn functions(tables: Bytes, header: u64) -> Vec<Range<u64>> {
    if tables.word(header) != Some(HEADER) {
        return Vec::new();
    }
    let count = u64::from(tables.word(header + 8).unwrap_or(0));
    let entries = (0..count).map(|number| header + 12 + 8 * number);
    entries
        .map_while(|entry| Some((tables.distance(entry, header)?, tables.distance(entry + 4, header)?)))
        .filter_map(|(begin, frame)| function(tables, begin, frame))
        .collect()
}

/// A description has its length, the place of what it has in common with others, where its function begins and how long that is.
fn function(tables: Bytes, begin: u64, frame: u64) -> Option<Range<u64>> {
    let said = tables.distance(frame.checked_add(8)?, frame + 8)?;
    let size = u64::from(tables.word(frame + 12)?);
    (said == begin && tables.word(frame)? != u32::MAX).then_some(begin..begin.checked_add(size)?)
}
