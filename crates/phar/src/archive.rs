//! Stub and manifest. The bytes of the entries follow the manifest, one behind the other, in the manifest's order.

use crate::cursor::Cursor;
use crate::names::{Names, shown};
use crate::signature::{self, Kind};
use crate::{MAX_CONTENTS, MAX_ENTRIES, MAX_ENTRY, MAX_MANIFEST, MAX_STUB};

/// The end of each stub.
const HALT: &[u8] = b"__HALT_COMPILER();";
/// Bytes of an entry of the manifest, without name and metadata.
const ENTRY: usize = 28;
/// The phar has a signature.
const IS_SIGNED: u32 = 0x0001_0000;
/// How an entry is compressed.
const PACKING: u32 = 0xF000;
const DEFLATED: u32 = 0x1000;
const BZIPPED: u32 = 0x2000;
/// The oldest version of the format that PHP reads.
const OLDEST: u16 = 0x1000;

/// How the bytes of an entry are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// As they are.
    Stored,
    /// By deflate, without a head.
    Deflated,
    /// By bzip2.
    Bzipped,
}

/// A file or directory in the phar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its path; a directory's ends with a slash.
    pub name: &'a [u8],
    /// Bytes that it has.
    pub size: u32,
    /// When it was written, in seconds since 1970; 0: nobody has said.
    pub time: u32,
    /// Its checksum.
    pub crc32: u32,
    /// How its bytes are kept.
    pub packing: Packing,
    /// Its bytes as they are kept.
    pub packed: &'a [u8],
    /// Where its time stands in the phar.
    pub(crate) time_at: usize,
}

impl Entry<'_> {
    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.name.ends_with(b"/")
    }
}

/// A phar.
#[derive(Clone, Debug)]
pub struct Archive<'a> {
    /// The script that PHP runs if it is asked to run the phar, to the end of its last line.
    pub stub: &'a [u8],
    /// The name by which scripts may name the phar.
    pub alias: &'a [u8],
    /// All entries.
    pub entries: Vec<Entry<'a>>,
    /// How it is signed. [`signature::check`] says whether that is right.
    pub kind: Kind,
    /// Bytes before the signature.
    pub(crate) signed: usize,
    /// Where the number of the bytes of metadata stands in the phar, if there are none.
    pub(crate) without_metadata: Option<usize>,
}

/// Why a file is no phar that can be read, if that can be told from its first bytes.
pub fn other_format(bytes: &[u8]) -> Option<&'static str> {
    let is_tar = bytes.get(257..262) == Some(b"ustar") || has_tar_header(bytes);
    match bytes {
        [0x1f, 0x8b, ..] => {
            Some("it is compressed as a whole, by gzip: compress its entries instead (Phar::compressFiles)")
        }
        [b'B', b'Z', b'h', ..] => {
            Some("it is compressed as a whole, by bzip2: compress its entries instead (Phar::compressFiles)")
        }
        [b'P', b'K', 3 | 5, 4 | 6, ..] => {
            Some("it is a phar in the format of zip: write it in the phar format (Phar::PHAR)")
        }
        _ if is_tar => Some("it is a phar in the format of tar: write it in the phar format (Phar::PHAR)"),
        _ => None,
    }
}

/// Whether the first block is a header of tar, also of the oldest kind, which has its checksum alone: PHP reads such a file as tar, whatever else is
/// in it.
fn has_tar_header(bytes: &[u8]) -> bool {
    let Some(block) = bytes.get(..512) else { return false };
    let sum: u32 =
        block.iter().enumerate().map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u32::from(*byte) }).sum();
    let digits =
        block[148..156].iter().skip_while(|byte| **byte == b' ').take_while(|byte| (b'0'..=b'7').contains(*byte));
    let said = digits.fold(None, |number: Option<u32>, byte| Some(number.unwrap_or(0) * 8 + u32::from(byte - b'0')));
    said == Some(sum)
}

/// Where the stub ends: behind its last line, of which PHP takes a closing tag and one line end for its own.
fn end_of_stub(bytes: &[u8]) -> Result<usize, String> {
    let within = &bytes[..bytes.len().min(MAX_STUB)];
    let Some(found) = memchr::memmem::find(within, HALT) else {
        let why = if bytes.len() > MAX_STUB { format!(" in its first {} MiB", MAX_STUB >> 20) } else { String::new() };
        return Err(format!("it has no __HALT_COMPILER();{why}, with which the stub of a phar ends"));
    };
    let end = found + HALT.len();
    Ok(match &bytes[end..] {
        [b' ' | b'\n', b'?', b'>', b'\r', b'\n', ..] => end + 5,
        [b' ' | b'\n', b'?', b'>', b'\r', ..] => return Err("behind its stub is half a line end".to_owned()),
        [b' ' | b'\n', b'?', b'>', b'\n', ..] => end + 4,
        [b' ' | b'\n', b'?', b'>', ..] => end + 3,
        _ => end,
    })
}

/// Reads stub and manifest. Whether the signature is right is to be asked first ([`signature::check`]).
pub fn read(bytes: &[u8]) -> Result<Archive<'_>, String> {
    if let Some(why) = other_format(bytes) {
        return Err(why.to_owned());
    }
    let begin = end_of_stub(bytes)?;
    let (kind, signed) = signature::find(bytes)?;
    let signed_bytes = bytes.get(begin..signed).ok_or("its signature begins within its stub")?;
    let cut = || "its manifest is cut off".to_owned();
    let manifest = Cursor::new(signed_bytes).counted().ok_or_else(cut)?;
    if manifest.len() > MAX_MANIFEST {
        return Err(format!("its manifest is larger than {} MiB", MAX_MANIFEST >> 20));
    }
    let contents = begin + 4 + manifest.len();
    let mut left = Cursor::new(manifest);
    let count = left.number().ok_or_else(cut)? as usize;
    let version = left.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]])).ok_or_else(cut)?;
    let flags = left.number().ok_or_else(cut)?;
    if version & 0xFFF0 < OLDEST {
        return Err(format!("it has version {version:x} of the format, which PHP does not read"));
    }
    if flags & IS_SIGNED == 0 {
        return Err("its manifest says that it has no signature, so PHP would check none".to_owned());
    }
    if count == 0 {
        return Err("it has no entries".to_owned());
    }
    if count > MAX_ENTRIES {
        return Err(format!("it has {count} entries; {MAX_ENTRIES} are the limit"));
    }
    let alias = left.counted().ok_or_else(cut)?;
    if alias.iter().any(|byte| b"/\\:;\n\r".contains(byte)) {
        return Err("its alias has a character that PHP allows in none: / \\ : ; or the end of a line".to_owned());
    }
    // Metadata of the phar is passed over.
    let metadata_at = contents - left.left();
    let metadata = left.counted().ok_or_else(cut)?;
    let without_metadata = metadata.is_empty().then_some(metadata_at);
    if count > left.left() / ENTRY {
        return Err(format!("its manifest says that there are {count} entries, and is too short for so many"));
    }
    let entries = read_entries(bytes, contents, signed, left, count)?;
    Ok(Archive { stub: &bytes[..begin], alias, entries, kind, signed, without_metadata })
}

fn read_entries<'a>(
    bytes: &'a [u8],
    mut at: usize,
    end: usize,
    mut left: Cursor<'a>,
    count: usize,
) -> Result<Vec<Entry<'a>>, String> {
    let mut entries = Vec::with_capacity(count);
    let mut names = Names::default();
    let mut total: u64 = 0;
    let of_manifest = |left: &Cursor<'_>, contents: usize| contents - left.left();
    let end_of_manifest = at;
    for number in 0..count {
        let cut = || format!("its manifest is cut off in entry {}", number + 1);
        let name = left.counted().ok_or_else(cut)?;
        names.add(name)?;
        let size = left.number().ok_or_else(cut)?;
        let time_at = of_manifest(&left, end_of_manifest);
        let time = left.number().ok_or_else(cut)?;
        let packed_size = left.number().ok_or_else(cut)?;
        let crc32 = left.number().ok_or_else(cut)?;
        let flags = left.number().ok_or_else(cut)?;
        // Metadata of the entry is passed over.
        left.counted().ok_or_else(cut)?;
        let wrong = |why: &str| format!("the entry {} {why}", shown(name));
        let packing = match flags & PACKING {
            0 => Packing::Stored,
            DEFLATED => Packing::Deflated,
            BZIPPED => Packing::Bzipped,
            _ => return Err(wrong("is compressed in two ways, or in an unknown one")),
        };
        if packing == Packing::Stored && packed_size != size {
            return Err(wrong("is not compressed, and has two different sizes"));
        }
        if name.ends_with(b"/") && size != 0 {
            return Err(wrong("is a directory with contents"));
        }
        if size > MAX_ENTRY {
            return Err(wrong(&format!("has more than {} MiB, decompressed", MAX_ENTRY >> 20)));
        }
        let next = at.checked_add(packed_size as usize).filter(|next| *next <= end);
        let next = next.ok_or_else(|| wrong("has bytes behind the end of the phar"))?;
        total += u64::from(size);
        if total > MAX_CONTENTS {
            return Err(format!("its entries have more than {} MiB together, decompressed", MAX_CONTENTS >> 20));
        }
        entries.push(Entry { name, size, time, crc32, packing, packed: &bytes[at..next], time_at });
        at = next;
    }
    if left.left() > 0 {
        return Err("its manifest is longer than its entries".to_owned());
    }
    Ok(entries)
}
