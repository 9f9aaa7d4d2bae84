//! Keys that are different for different things: each part is written with its length before it, so that no text in one part can look like
//! another part.

/// A key in parts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Vec<u8>);

/// The length that stands for a part that is absent.
const ABSENT: u32 = u32::MAX;

impl Key {
    /// Without a part.
    pub const fn new() -> Key {
        Key(Vec::new())
    }

    /// Adds a part. One of 4 GiB or more cannot be: heads are limited.
    pub fn add(&mut self, part: &[u8]) -> &mut Key {
        let length = u32::try_from(part.len()).unwrap_or(ABSENT - 1);
        self.0.extend_from_slice(&length.to_le_bytes());
        self.0.extend_from_slice(part);
        self
    }

    /// Adds a part that is in pieces.
    pub fn add_pieces(&mut self, pieces: &[&[u8]]) -> &mut Key {
        let start = self.0.len();
        self.add(b"");
        pieces.iter().for_each(|piece| self.0.extend_from_slice(piece));
        let length = self.0.len() - start - 4;
        self.0[start..start + 4].copy_from_slice(&u32::try_from(length).unwrap_or(ABSENT - 1).to_le_bytes());
        self
    }

    /// Without a part, with the room that it had.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds a part that is absent, which is not the same as an empty one.
    pub fn absent(&mut self) -> &mut Key {
        self.0.extend_from_slice(&ABSENT.to_le_bytes());
        self
    }

    /// All bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn pieces_are_one_part() {
        let (mut whole, mut pieces) = (Key::new(), Key::new());
        assert_eq!(whole.add(b"a?b").add(b"c"), pieces.add_pieces(&[b"a", b"?", b"b"]).add_pieces(&[b"c"]));
    }

    #[test]
    fn different_parts_make_different_keys() {
        let mut seen: HashMap<Key, Vec<Option<Vec<u8>>>> = HashMap::new();
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..50_000 {
            let parts: Vec<Option<Vec<u8>>> = (0..random.usize(..5))
                .map(|_| {
                    random
                        .bool()
                        .then(|| (0..random.usize(..6)).map(|_| *random.choice(&[0, 1, 2, 255]).unwrap()).collect())
                })
                .collect();
            let mut key = Key::new();
            for part in &parts {
                match part {
                    Some(part) => key.add(part),
                    None => key.absent(),
                };
            }
            let known = seen.entry(key).or_insert_with(|| parts.clone());
            assert_eq!(*known, parts);
        }
    }
}
