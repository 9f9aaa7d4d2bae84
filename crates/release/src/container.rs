//! The file of a release.
//!
//! | bytes | what |
//! |---|---|
//! | 16 | [`MAGIC`] |
//! | 8 | length of what follows the header, little-endian |
//! | 72 | key and signature ([`Seal`]), over the SHA-256 of what follows |
//! | 4 | length of the manifest, little-endian |
//! | … | the manifest, JSON |
//! | … | zstd: the files of the manifest one after the other, then those of opcache |
//!
//! Nothing behind the header is parsed before the signature is checked.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use aws_lc_rs::digest::{Context, SHA256};

use crate::fault::Fault;
use crate::keys::{KeyId, Keys, Purpose, SEAL, Seal, hex};
use crate::manifest::{Limits, Manifest};

/// What the file begins with.
pub const MAGIC: &[u8; 16] = b"reprise release\n";
/// Bytes before the manifest's length.
pub const HEADER: usize = 24 + SEAL;
/// Bytes of a manifest.
pub const MAX_MANIFEST: usize = 128 << 20;
/// Bytes that are read at once.
const PIECE: usize = 256 << 10;

/// A file whose signature is right.
#[derive(Debug)]
pub struct Checked {
    file: File,
    /// SHA-256 of what follows the header, in hexadecimal digits.
    pub digest: String,
    /// Whose signature it is; `None`: it is not signed.
    pub signed_by: Option<KeyId>,
}

fn failed(error: std::io::Error) -> Fault {
    Fault::refused(format!("cannot be read: {error}"))
}

/// SHA-256 of the rest of what is read, and how long it is.
pub fn hash(mut from: impl Read) -> std::io::Result<([u8; 32], u64)> {
    let (mut hash, mut piece, mut length) = (Context::new(&SHA256), vec![0; PIECE], 0);
    loop {
        match from.read(&mut piece)? {
            0 => break,
            read => {
                hash.update(&piece[..read]);
                length += read as u64;
            }
        }
    }
    let mut all = [0; 32];
    all.copy_from_slice(hash.finish().as_ref());
    Ok((all, length))
}

/// Checks the signature of a file.
///
/// # Errors
/// It is no release, incomplete, altered, or not signed by one of the keys.
pub fn check(mut file: File, keys: &Keys) -> Result<Checked, Fault> {
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    let mut header = [0; HEADER];
    file.read_exact(&mut header).map_err(|_| Fault::refused("is cut off, or no release"))?;
    let (magic, rest) = header.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(Fault::refused("is no release"));
    }
    let (length, seal) = rest.split_at(8);
    let length = u64::from_le_bytes(length.try_into().unwrap_or_default());
    let seal = <&[u8; SEAL]>::try_from(seal).map(Seal::of).unwrap_or(Seal::NONE);
    let there = file.metadata().map_err(failed)?.len().saturating_sub(HEADER as u64);
    if there < length {
        return Err(Fault::refused(format!("is cut off: {there} of {length} bytes are there")));
    }
    if there > length {
        return Err(Fault::refused(format!("is longer than it says: {there} bytes, not {length}")));
    }
    let (digest, read) = hash(&mut file).map_err(failed)?;
    if read != length {
        return Err(Fault::refused("was changed while it was read"));
    }
    let signed_by = keys.check(Purpose::Release, &digest, &seal)?;
    Ok(Checked { file, digest: hex(&digest), signed_by })
}

/// What remains when the manifest is read: the compressed files.
#[derive(Debug)]
pub struct Archive(pub(crate) File);

impl Checked {
    /// The manifest, checked.
    ///
    /// # Errors
    /// It cannot be used, and why.
    pub fn read(mut self, limits: &Limits) -> Result<(Manifest, Archive), Fault> {
        self.file.seek(SeekFrom::Start(HEADER as u64)).map_err(failed)?;
        let mut length = [0; 4];
        self.file.read_exact(&mut length).map_err(|_| Fault::refused("has no manifest"))?;
        let length = u32::from_le_bytes(length) as usize;
        if length > MAX_MANIFEST {
            return Err(Fault::refused(format!("has a manifest of more than {MAX_MANIFEST} bytes")));
        }
        let mut text = Vec::new();
        (&mut self.file).take(length as u64).read_to_end(&mut text).map_err(failed)?;
        let manifest = parse(&text, length, limits)?;
        Ok((manifest, Archive(self.file)))
    }
}

/// The manifest of its text.
///
/// # Errors
/// It is none, or says what cannot be.
pub fn parse(text: &[u8], length: usize, limits: &Limits) -> Result<Manifest, Fault> {
    if text.len() != length {
        return Err(Fault::refused("has a manifest that is cut off"));
    }
    let manifest: Manifest =
        serde_json::from_slice(text).map_err(|error| Fault::refused(format!("has no readable manifest: {error}")))?;
    manifest.check(limits)?;
    Ok(manifest)
}
