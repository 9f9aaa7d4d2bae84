//! The copy that PHP reads. It has what PHP asks for and what a phar may lack:
//!
//! | what | why |
//! |---|---|
//! | a time for each entry | opcache keeps no script without one, and the PHP of some distributions writes phars without any, so that they can be built again byte for byte |
//! | metadata of the phar, `null` if there was none | `phar.cache_list`, with which no request reads and checks the whole phar anew, skips four bytes too many of a phar without metadata (`phar_parse_pharfile` in PHP 8.2 to 8.4) and then refuses it |
//! | a signature by SHA-256 in the place of its own | so that PHP needs no key, which may be another one by then. The phar's own signature was checked before |

use std::borrow::Cow;

use crate::archive::Archive;
use crate::signature;

/// `null`, serialized, behind the number of its bytes.
const NOTHING: &[u8] = b"\x02\0\0\0N;";

/// The phar for PHP, with this time for entries that have none.
pub fn copy<'a>(bytes: &'a [u8], archive: &Archive<'_>, time: u32) -> Cow<'a, [u8]> {
    // 0 would be none.
    let time = time.max(1).to_le_bytes();
    let untimed = || archive.entries.iter().filter(|entry| entry.time == 0 && !entry.is_directory());
    let added = archive.without_metadata.map_or(0, |_| NOTHING.len() - 4);
    if !archive.kind.is_by_key() && untimed().next().is_none() && added == 0 {
        return Cow::Borrowed(bytes);
    }
    let mut copy = Vec::with_capacity(archive.signed + added + signature::SHA256_SIZE);
    let signed = &bytes[..archive.signed];
    match archive.without_metadata {
        Some(at) => {
            [&signed[..at], NOTHING, &signed[at + 4..]].into_iter().for_each(|part| copy.extend_from_slice(part))
        }
        None => copy.extend_from_slice(signed),
    }
    // The manifest, behind the stub, begins with the number of its bytes.
    let (begin, end) = (archive.stub.len(), archive.stub.len() + 4);
    let manifest = signed[begin..end].iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte));
    copy[begin..end].copy_from_slice(&(manifest + added as u32).to_le_bytes());
    for entry in untimed() {
        let at = entry.time_at + added;
        copy[at..at + 4].copy_from_slice(&time);
    }
    signature::sign(&mut copy);
    Cow::Owned(copy)
}
