//! The reason phrase that PHP has chosen for its status.

use bytes::Bytes;

/// The phrase travels as an extension of the response. A transport that has reason phrases sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason(Bytes);

impl Reason {
    /// `None`: the phrase has a byte that no status line may have (RFC 9112 §4).
    pub fn new(words: &[u8]) -> Option<Reason> {
        let may_be = |byte: &u8| matches!(byte, b'\t' | b' ' | 0x21..=0x7e | 0x80..);
        words.iter().all(may_be).then(|| Reason(Bytes::copy_from_slice(words)))
    }

    /// The phrase. It may be empty.
    pub fn words(&self) -> &Bytes {
        &self.0
    }
}
