//! The phar format: PHP code and files in one file, behind a stub that PHP can run. Bytes of strangers: whatever they are, they are read or
//! refused with words, within limits. Metadata, which PHP unserializes, is passed over.
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | [`signature`] | the end of the file: a hash, or a signature by a key that lies beside the phar |
//! | [`archive`] | stub and manifest: which entries there are, and where their bytes lie |
//! | [`names`] | which names entries may have, and that no two of them collide |
//! | [`contents`] | the bytes of an entry, decompressed and compared with their checksum |
//! | [`for_php`] | the copy that PHP reads, with what it asks for |

#![forbid(unsafe_code)]

pub mod archive;
pub mod contents;
mod cursor;
pub mod for_php;
pub mod names;
pub mod signature;

pub use archive::{Archive, Entry, Packing, read};

/// Bytes of a phar at most. Its reader holds it in memory.
pub const MAX_SIZE: u64 = 256 << 20;
/// Bytes of its stub at most.
pub const MAX_STUB: usize = 4 << 20;
/// Bytes of its manifest at most: the names and sizes of all entries, and metadata.
pub const MAX_MANIFEST: usize = 32 << 20;
/// Entries at most.
pub const MAX_ENTRIES: usize = 100_000;
/// Files and directories at most: those that no entry names are only the way to others.
pub const MAX_PATHS: usize = 200_000;
/// Bytes of a name at most, and of a part between two slashes.
pub const MAX_NAME: usize = 1024;
/// The same of a part.
pub const MAX_PART: usize = 255;
/// Levels of directories at most.
pub const MAX_DEPTH: usize = 64;
/// Bytes of an entry at most, decompressed. Its reader holds it in memory.
pub const MAX_ENTRY: u32 = 256 << 20;
/// Bytes of all entries at most, decompressed.
pub const MAX_CONTENTS: u64 = 1 << 30;
