//! What a worker says to the process that talks to the store, and its replies: a head of fixed size, then key, tags and value. A conversation has
//! a socket of its own, so it ends when either dies. Each side checks all sizes before it takes what follows.

/// The largest value, in bytes, as it is serialized.
pub const LARGEST_VALUE: usize = 16 << 20;
/// Bytes of the names of all tags of a value: each two bytes for its length, and at most as long as a key.
pub const LARGEST_TAGS: usize = 64 * (2 + 1024);

/// What is asked for, or the reply to it.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    // Requests.
    /// The value of `key`; if `flag` is 1, that which was put there as kept.
    Get = 1,
    /// The value of `key`, or the right to compute it: waits for another's computation for `first` milliseconds. If `flag` is 1, a value that is to be
    /// renewed is none. The right ends with the conversation.
    Lease = 2,
    /// Store a value. `flag` 0: tell other nodes that it has changed; 1: only if there is none; 2: it was computed with the right of this conversation; 3: it is
    /// kept, whatever the bus says, and lies in the store alone; 4: what is kept is removed.
    Put = 3,
    /// Something has changed: `flag` 1 tags, 2 `key`, 3 everything, 4 stored responses as the text in the value says. Waits for `first` milliseconds
    /// until that is written down.
    Tell = 4,
    /// The lock `key`, until the conversation ends, at most `first` milliseconds.
    Lock = 5,
    /// Add the signed number `first` to the number `key`.
    Add = 6,
    /// Store the value, or remove `key` if `flag` is 1, in the place of one whose bytes follow the tags, with their length in `third`.
    Swap = 7,
    /// Give back all leases and locks of this conversation.
    Release = 8,
    // Replies.
    /// Here it is. `first` and `second`: milliseconds until it is to be renewed, and until it is gone; all ones: never.
    Value = 100,
    /// There is none, or the condition does not hold.
    None = 101,
    /// It is yours.
    Mine = 102,
    /// Another has it.
    Held = 103,
    /// Done. For `Add`: the sum in `first`.
    Done = 104,
    /// It will be done: the store is slow or away.
    Later = 105,
    /// The store cannot be asked.
    Away = 106,
    /// It is too large.
    TooLarge = 107,
}

impl Word {
    /// From a number.
    pub fn of(number: u32) -> Option<Word> {
        use Word::{
            Add, Away, Done, Get, Held, Later, Lease, Lock, Mine, None, Put, Release, Swap, Tell, TooLarge, Value,
        };
        [Get, Lease, Put, Tell, Lock, Add, Swap, Release, Value, None, Mine, Held, Done, Later, Away, TooLarge]
            .into_iter()
            .find(|word| *word as u32 == number)
    }
}

/// Before what is said.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// A [`Word`].
    pub word: u32,
    /// See [`Word`].
    pub flag: u32,
    /// Bytes of the key.
    pub key_size: u32,
    /// Bytes of the tags' names.
    pub tags_size: u32,
    /// Bytes of the value.
    pub value_size: u32,
    /// How the value is serialized: as in an entry.
    pub kind: u32,
    /// Microseconds that it took to compute.
    pub cost: u32,
    /// 0.
    pub unused: u32,
    /// See [`Word`]; for `Put` and `Swap` the milliseconds after which it is to be renewed; 0: never.
    pub first: u64,
    /// For `Put` and `Swap` the milliseconds more until it is gone.
    pub second: u64,
    /// See [`Word::Swap`].
    pub third: u64,
}

/// Bytes of a head.
pub const HEAD: usize = size_of::<Head>();
const _: () = assert!(HEAD == 56);

impl Head {
    /// From bytes that somebody sent. `None`: its sizes are none that it may have.
    pub fn of(bytes: &[u8; HEAD]) -> Option<Head> {
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let head = Head {
            word: word(0),
            flag: word(4),
            key_size: word(8),
            tags_size: word(12),
            value_size: word(16),
            kind: word(20),
            cost: word(24),
            unused: word(28),
            first: long(32),
            second: long(40),
            third: long(48),
        };
        head.is_sound().then_some(head)
    }

    /// As bytes.
    pub fn bytes(&self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        let words =
            [self.word, self.flag, self.key_size, self.tags_size, self.value_size, self.kind, self.cost, self.unused];
        for (number, word) in words.iter().enumerate() {
            bytes[number * 4..number * 4 + 4].copy_from_slice(&word.to_ne_bytes());
        }
        for (number, long) in [self.first, self.second, self.third].iter().enumerate() {
            bytes[32 + number * 8..40 + number * 8].copy_from_slice(&long.to_ne_bytes());
        }
        bytes
    }

    /// Whether all sizes are within what they may be.
    pub fn is_sound(&self) -> bool {
        Word::of(self.word).is_some()
            && self.key_size as usize <= crate::layout::LONGEST_KEY
            && self.tags_size as usize <= LARGEST_TAGS
            && self.value_size as usize <= LARGEST_VALUE
            && (self.third == 0 || self.third <= u64::from(self.value_size))
    }

    /// Bytes that follow.
    pub fn body_size(&self) -> usize {
        self.key_size as usize + self.tags_size as usize + self.value_size as usize
    }
}

/// The names in the bytes of tags. `None`: they are none.
pub fn tags(mut bytes: &[u8]) -> Option<impl Iterator<Item = &[u8]>> {
    let (all, mut count) = (bytes, 0);
    while !bytes.is_empty() {
        let (size, rest) = bytes.split_first_chunk::<2>()?;
        let size = usize::from(u16::from_ne_bytes(*size));
        if size == 0 || size > crate::layout::LONGEST_KEY || rest.len() < size {
            return None;
        }
        bytes = &rest[size..];
        count += 1;
    }
    let mut rest = all;
    (count <= crate::layout::MOST_TAGS).then(|| {
        core::iter::from_fn(move || {
            let (size, after) = rest.split_first_chunk::<2>()?;
            let (name, after) = after.split_at(usize::from(u16::from_ne_bytes(*size)));
            rest = after;
            Some(name)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_what_was_sent_if_its_sizes_may_be() {
        let head = Head {
            word: Word::Put as u32,
            flag: 2,
            key_size: 3,
            value_size: 9,
            first: 1 << 40,
            third: 9,
            ..Head::default()
        };
        assert_eq!(Head::of(&head.bytes()), Some(head));
        for bad in [
            Head { word: 9, ..head },
            Head { key_size: 1025, ..head },
            Head { tags_size: LARGEST_TAGS as u32 + 1, ..head },
            Head { value_size: LARGEST_VALUE as u32 + 1, ..head },
            Head { third: 10, ..head },
        ] {
            assert_eq!(Head::of(&bad.bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn names_of_tags_are_whole_or_none() {
        let bytes = |names: &[&[u8]]| -> Vec<u8> {
            names.iter().flat_map(|name| [&(name.len() as u16).to_ne_bytes()[..], name].concat()).collect()
        };
        let good = bytes(&[b"a", b"menu"]);
        assert_eq!(tags(&good).unwrap().collect::<Vec<_>>(), [&b"a"[..], b"menu"]);
        assert_eq!(tags(&[]).unwrap().count(), 0);
        for bad in [&good[..good.len() - 1], &good[..4], &[0, 0], &bytes(&[&[b'x'; 1025]]), &bytes(&[&b"x"[..]; 65])] {
            assert!(tags(bad).is_none());
        }
    }
}
