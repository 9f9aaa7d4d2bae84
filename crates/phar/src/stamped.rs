//! A copy whose entries all have times. opcache keeps no script without one, and the PHP of some distributions writes phars without any,
//! so that they can be built again byte for byte. The copy has a signature by SHA-256 in the place of its own.

use std::borrow::Cow;

use crate::archive::Archive;
use crate::signature;

/// The phar, with this time for entries that have none. A phar that is signed by a key, or whose entries have times, stays as it is.
pub fn copy<'a>(bytes: &'a [u8], archive: &Archive<'_>, time: u32) -> Cow<'a, [u8]> {
    let untimed = || archive.entries.iter().filter(|entry| entry.time == 0 && !entry.is_directory());
    if archive.kind.is_by_key() || untimed().next().is_none() || time == 0 {
        return Cow::Borrowed(bytes);
    }
    let mut copy = bytes[..archive.signed].to_vec();
    for entry in untimed() {
        copy[entry.time_at..entry.time_at + 4].copy_from_slice(&time.to_le_bytes());
    }
    signature::sign(&mut copy);
    Cow::Owned(copy)
}
