//! The signature at the end of a phar, as PHP's extension checks it: a hash of all bytes before it, or a signature of them by the key whose public
//! part lies beside the phar (`app.phar.pubkey`). A hash tells that the file is whole; who has written it only a signature can tell.

use aws_lc_rs::{digest, signature as rsa};
use md5::{Digest, Md5};
use x509_cert::der::{DecodePem, Encode};
use x509_cert::spki::SubjectPublicKeyInfoOwned;

use crate::cursor::Cursor;

/// How a phar is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A hash that can be forged.
    Md5,
    /// A hash that can be forged.
    Sha1,
    /// A hash.
    Sha256,
    /// A hash.
    Sha512,
    /// By a key, over SHA-1.
    Key1,
    /// By a key, over SHA-256.
    Key256,
    /// By a key, over SHA-512.
    Key512,
}

/// The last bytes of a phar with a signature.
const MAGIC: &[u8] = b"GBMB";
/// Bytes of a signature by a key at most: 16,384 bits.
const MAX_KEYED: usize = 2048;

impl Kind {
    fn of(number: u32) -> Option<Kind> {
        Some(match number {
            0x01 => Kind::Md5,
            0x02 => Kind::Sha1,
            0x03 => Kind::Sha256,
            0x04 => Kind::Sha512,
            0x10 => Kind::Key1,
            0x11 => Kind::Key256,
            0x12 => Kind::Key512,
            _ => return None,
        })
    }

    /// Its name, as `Phar::getSignature` says it.
    pub const fn word(self) -> &'static str {
        match self {
            Kind::Md5 => "MD5",
            Kind::Sha1 => "SHA-1",
            Kind::Sha256 => "SHA-256",
            Kind::Sha512 => "SHA-512",
            Kind::Key1 => "OpenSSL",
            Kind::Key256 => "OpenSSL_SHA256",
            Kind::Key512 => "OpenSSL_SHA512",
        }
    }

    /// Whether it is by a key, not a mere hash.
    pub const fn is_by_key(self) -> bool {
        matches!(self, Kind::Key1 | Kind::Key256 | Kind::Key512)
    }

    /// Whether others can make another phar with the same signature.
    pub const fn is_weak(self) -> bool {
        matches!(self, Kind::Md5 | Kind::Sha1 | Kind::Key1)
    }

    const fn hash_size(self) -> Option<usize> {
        match self {
            Kind::Md5 => Some(16),
            Kind::Sha1 => Some(20),
            Kind::Sha256 => Some(32),
            Kind::Sha512 => Some(64),
            _ => None,
        }
    }
}

/// How a phar is signed, and how many bytes are.
pub fn find(bytes: &[u8]) -> Result<(Kind, usize), String> {
    let none = "it has no signature, which PHP asks for (phar.require_hash), or its end is cut off";
    let rest = bytes.strip_suffix(MAGIC).ok_or(none)?;
    let (rest, number) = split_number(rest).ok_or(none)?;
    let kind = Kind::of(number).ok_or_else(|| format!("it has a signature of an unknown kind ({number:#x})"))?;
    let cut = "its signature is cut off";
    let signed = match kind.hash_size() {
        Some(size) => rest.len().checked_sub(size).ok_or(cut)?,
        None => {
            let (rest, size) = split_number(rest).ok_or(cut)?;
            let size = Some(size as usize).filter(|size| (1..=MAX_KEYED).contains(size));
            let size = size.ok_or("its signature has a size that no signature has")?;
            rest.len().checked_sub(size).ok_or(cut)?
        }
    };
    Ok((kind, signed))
}

fn split_number(bytes: &[u8]) -> Option<(&[u8], u32)> {
    let (rest, number) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
    Some((rest, Cursor::new(number).number()?))
}

/// Checks the signature; `key` has the contents of the file with the public key, if there is one.
pub fn check(bytes: &[u8], key: Option<&[u8]>) -> Result<Kind, String> {
    let (kind, signed) = find(bytes)?;
    let (signed, behind) = bytes.split_at_checked(signed).ok_or("its signature is cut off")?;
    let Some(size) = kind.hash_size() else { return check_keyed(kind, signed, behind, key) };
    if key.is_some() {
        // As PHP: anybody can put a hash in the place of a signature.
        return Err(format!("a public key lies beside it, and it is signed by none ({})", kind.word()));
    }
    let made = match kind {
        Kind::Md5 => Md5::digest(signed).to_vec(),
        Kind::Sha1 => digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, signed).as_ref().to_vec(),
        Kind::Sha512 => digest::digest(&digest::SHA512, signed).as_ref().to_vec(),
        _ => digest::digest(&digest::SHA256, signed).as_ref().to_vec(),
    };
    match behind.get(..size) == Some(&made[..]) {
        true => Ok(kind),
        false => Err(format!("its bytes are not those of its signature ({})", kind.word())),
    }
}

fn check_keyed(kind: Kind, signed: &[u8], behind: &[u8], key: Option<&[u8]>) -> Result<Kind, String> {
    let key = key
        .ok_or("it is signed by a key, and the file with the public key, .pubkey behind its name, is not beside it")?;
    let wrong = |why: &str| format!("the public key beside it {why}");
    let text = std::str::from_utf8(key).map_err(|_| wrong("is no PEM"))?;
    let key = SubjectPublicKeyInfoOwned::from_pem(text.trim()).map_err(|_| wrong("is no PEM of a public key"))?;
    let key = key.to_der().map_err(|_| wrong("is no public key"))?;
    let algorithm = match kind {
        Kind::Key1 => &rsa::RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY,
        Kind::Key512 => &rsa::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY,
        _ => &rsa::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
    };
    let size = behind.len().saturating_sub(4 + 4 + MAGIC.len());
    let signature = behind.get(..size).unwrap_or_default();
    let verdict = rsa::UnparsedPublicKey::new(algorithm, key).verify(signed, signature);
    verdict.map_err(|_| {
        format!(
            "its signature ({}) is not one of the key beside it; keys have to be RSA, of 1024 to 8192 bits",
            kind.word()
        )
    })?;
    Ok(kind)
}

/// The SHA-256 of bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    hash
}

/// Bytes that [`sign`] adds.
pub(crate) const SHA256_SIZE: usize = 40;

/// Puts a signature by SHA-256 behind bytes.
pub(crate) fn sign(bytes: &mut Vec<u8>) {
    let hash = sha256(bytes);
    bytes.extend_from_slice(&hash);
    bytes.extend_from_slice(&3u32.to_le_bytes());
    bytes.extend_from_slice(MAGIC);
}
