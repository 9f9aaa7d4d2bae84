//! The bytes of an entry. Their size is known before they are decompressed, and not one byte more is.

use std::borrow::Cow;
use std::io::Read;

use crate::archive::{Entry, Packing};
use crate::names::shown;

/// The bytes of an entry, decompressed and compared with their checksum.
pub fn of<'a>(entry: &Entry<'a>) -> Result<Cow<'a, [u8]>, String> {
    let wrong = |why: String| format!("the entry {} {why}", shown(entry.name));
    let bytes = match entry.packing {
        Packing::Stored => Cow::Borrowed(entry.packed),
        Packing::Deflated => Cow::Owned(all(entry, flate2::read::DeflateDecoder::new(entry.packed)).map_err(wrong)?),
        Packing::Bzipped => Cow::Owned(all(entry, bzip2::read::BzDecoder::new(entry.packed)).map_err(wrong)?),
    };
    let mut sum = flate2::Crc::new();
    sum.update(&bytes);
    // As PHP, which compares nothing of a directory.
    if sum.sum() != entry.crc32 && !entry.is_directory() {
        return Err(wrong("has bytes that are not those of its checksum".to_owned()));
    }
    Ok(bytes)
}

fn all(entry: &Entry<'_>, from: impl Read) -> Result<Vec<u8>, String> {
    // A size that is a lie shall not take memory that the bytes do not need.
    let mut bytes = Vec::with_capacity((entry.size as usize).min(1 << 20));
    let mut from = from.take(u64::from(entry.size) + 1);
    from.read_to_end(&mut bytes).map_err(|error| format!("cannot be decompressed: {error}"))?;
    if bytes.len() != entry.size as usize {
        return Err(format!("has {} bytes or more when it is decompressed, and says {}", bytes.len(), entry.size));
    }
    Ok(bytes)
}
