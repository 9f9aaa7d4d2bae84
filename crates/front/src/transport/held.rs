//! Bytes that were read and cannot be given to hyper yet.
//!
//! A few bytes are kept in the heap. More bytes, such as the unfinished heads that slow or hostile clients send on
//! thousands of connections, are kept in pages of their own. Such pages cost only what was written to them, and go back to
//! the kernel when the head is complete or the client gone. Freed heap of that size would stay with the process, because
//! later and longer-lived memory lies behind it.

use memmap2::MmapMut;

use super::framing::MAX_HEAD;

/// Bytes that are kept in the heap.
const SMALL: usize = 4 * 1024;
/// Bytes of the pages: the largest head, and what one read can bring beyond that limit.
const LARGE: usize = MAX_HEAD + 8 * 1024;

/// A queue of bytes.
#[derive(Default)]
pub struct Held {
    place: Place,
    from: usize,
    to: usize,
}

#[derive(Default)]
enum Place {
    #[default]
    Nowhere,
    Heap(Vec<u8>),
    Pages(MmapMut),
}

impl Place {
    fn bytes(&self) -> &[u8] {
        match self {
            Place::Nowhere => &[],
            Place::Heap(bytes) => bytes,
            Place::Pages(bytes) => bytes,
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Place::Nowhere => &mut [],
            Place::Heap(bytes) => bytes,
            Place::Pages(bytes) => bytes,
        }
    }

    /// Pages with room for that many bytes.
    fn with(room: usize) -> Place {
        let pages = match room {
            ..=SMALL => None,
            // There are too many mappings, or there is no memory: the heap is tried instead.
            _ => MmapMut::map_anon(room.next_multiple_of(LARGE)).ok(),
        };
        pages.map_or_else(|| Place::Heap(vec![0; room]), Place::Pages)
    }
}

impl Held {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.place.bytes().get(self.from..self.to).unwrap_or_default()
    }

    /// Appends bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        let end = self.to + bytes.len();
        if end > self.place.bytes().len() {
            let needed = self.bytes().len() + bytes.len();
            let mut place = Place::with(needed.next_multiple_of(1024));
            place.bytes_mut()[..self.to - self.from].copy_from_slice(self.bytes());
            (self.from, self.to) = (0, self.to - self.from);
            self.place = place;
        }
        self.place.bytes_mut()[self.to..self.to + bytes.len()].copy_from_slice(bytes);
        self.to += bytes.len();
    }

    /// Removes the first bytes. Gives the memory back with the last one.
    pub fn drop_first(&mut self, count: usize) {
        self.from += count.min(self.to - self.from);
        if self.from == self.to {
            *self = Held::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in() {
        let (mut held, mut expected) = (Held::default(), Vec::new());
        let mut number = 0u32;
        for turn in 0..2_000usize {
            let bytes: Vec<u8> = (0..turn * 37 % 5_000).map(|index| (index * turn) as u8).collect();
            held.add(&bytes);
            expected.extend_from_slice(&bytes);
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let count = number as usize % 6_000;
            held.drop_first(count);
            expected.drain(..count.min(expected.len()));
            assert_eq!(held.bytes(), expected, "turn {turn}");
        }
        held.drop_first(usize::MAX);
        assert!(held.bytes().is_empty() && matches!(held.place, Place::Nowhere));
    }
}
