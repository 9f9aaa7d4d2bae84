//! Keys and signatures (ed25519). What a signature is for is signed with it, so that none serves for something else.

use aws_lc_rs::digest;
use aws_lc_rs::rand;
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::fault::Fault;

/// What the text of a public key begins with.
const PUBLIC: &str = "reprise-release-public:";
/// What the text of a secret key begins with.
const SECRET: &str = "reprise-release-secret:";

/// Names a key: the beginning of its hash.
pub type KeyId = [u8; 8];

/// The key and the signature, as they stand in files. All zero: unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// By which key it is said to be.
    pub key: KeyId,
    /// The signature.
    pub signature: [u8; 64],
}

/// Bytes of a [`Seal`].
pub const SEAL: usize = 72;

impl Seal {
    /// That of what is not signed.
    pub const NONE: Seal = Seal { key: [0; 8], signature: [0; 64] };

    /// As it stands in files.
    pub fn bytes(&self) -> [u8; SEAL] {
        let mut all = [0; SEAL];
        all[..8].copy_from_slice(&self.key);
        all[8..].copy_from_slice(&self.signature);
        all
    }

    /// The seal that stands there.
    pub fn of(bytes: &[u8; SEAL]) -> Seal {
        let mut seal = Seal::NONE;
        seal.key.copy_from_slice(&bytes[..8]);
        seal.signature.copy_from_slice(&bytes[8..]);
        seal
    }
}

/// What is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A release's file, by its hash.
    Release,
    /// A record of a pool.
    Record,
}

impl Purpose {
    fn message(self, bytes: &[u8]) -> Vec<u8> {
        let name: &[u8] = match self {
            Purpose::Release => b"reprise release file 1\0",
            Purpose::Record => b"reprise release record 1\0",
        };
        [name, bytes].concat()
    }
}

/// The key that nodes have in their configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// The key of its text.
    ///
    /// # Errors
    /// It is none; what one looks like.
    pub fn parse(text: &str) -> Result<PublicKey, String> {
        let bytes = text.trim().strip_prefix(PUBLIC).and_then(|rest| STANDARD.decode(rest).ok());
        let bytes = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        let hint =
            if text.trim().starts_with(SECRET) { "; this is a secret key, which belongs on no node" } else { "" };
        bytes.map(PublicKey).ok_or_else(|| format!("is no public key: {PUBLIC}… (reprise release keygen){hint}"))
    }

    /// Its text.
    pub fn text(&self) -> String {
        format!("{PUBLIC}{}", STANDARD.encode(self.0))
    }

    /// Its name.
    pub fn id(&self) -> KeyId {
        let hash = digest::digest(&digest::SHA256, &self.0);
        let mut id = KeyId::default();
        id.copy_from_slice(&hash.as_ref()[..8]);
        id
    }
}

/// The key that signs.
pub struct SecretKey {
    pair: Ed25519KeyPair,
    seed: [u8; 32],
}

impl SecretKey {
    /// A new one.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn generate() -> Result<SecretKey, Fault> {
        let mut seed = [0; 32];
        rand::fill(&mut seed).map_err(|_| Fault::refused("the system gives no random numbers"))?;
        SecretKey::of_seed(seed)
    }

    fn of_seed(seed: [u8; 32]) -> Result<SecretKey, Fault> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|_| Fault::refused("is no secret key"))?;
        Ok(SecretKey { pair, seed })
    }

    /// The key of its text.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &str) -> Result<SecretKey, Fault> {
        let bytes = text.trim().strip_prefix(SECRET).and_then(|rest| STANDARD.decode(rest).ok());
        let seed = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        seed.map_or_else(
            || Err(Fault::refused(format!("is no secret key: {SECRET}… (reprise release keygen)"))),
            SecretKey::of_seed,
        )
    }

    /// Its text.
    pub fn text(&self) -> String {
        format!("{SECRET}{}", STANDARD.encode(self.seed))
    }

    /// The key for nodes.
    pub fn public(&self) -> PublicKey {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(self.pair.public_key().as_ref());
        PublicKey(bytes)
    }

    /// Signs.
    pub fn sign(&self, purpose: Purpose, bytes: &[u8]) -> Seal {
        let mut seal = Seal { key: self.public().id(), ..Seal::NONE };
        seal.signature.copy_from_slice(self.pair.sign(&purpose.message(bytes)).as_ref());
        seal
    }
}

/// Whose signatures are taken.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    /// These keys'.
    pub trusted: Vec<PublicKey>,
    /// And nobody's: what is not signed is taken too.
    pub allows_unsigned: bool,
}

impl Keys {
    /// Checks a seal before anything else of what it is for is looked at. Returns the key; `None`: it is not signed, and need not be.
    ///
    /// # Errors
    /// It is not signed by one of the keys.
    pub fn check(&self, purpose: Purpose, bytes: &[u8], seal: &Seal) -> Result<Option<KeyId>, Fault> {
        if *seal == Seal::NONE {
            return match self.allows_unsigned {
                true => Ok(None),
                false => Err(Fault::refused("is not signed, and release_keys asks for a signature")),
            };
        }
        let known = self.trusted.iter().filter(|key| key.id() == seal.key);
        let message = purpose.message(bytes);
        let mut known = known.peekable();
        if known.peek().is_none() {
            let text = hex(&seal.key);
            return Err(Fault::refused(format!("is signed by the key {text}, which is none of release_keys")));
        }
        let is_right =
            |key: &PublicKey| UnparsedPublicKey::new(&ED25519, key.0).verify(&message, &seal.signature).is_ok();
        match known.any(is_right) {
            true => Ok(Some(seal.key)),
            false => Err(Fault::refused("has a signature that is wrong: it was altered, or damaged on its way")),
        }
    }
}

/// Bytes in hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_checked_by_the_keys_that_are_trusted() {
        let (ours, theirs) = (SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
        let keys = Keys { trusted: vec![ours.public()], allows_unsigned: false };
        let seal = ours.sign(Purpose::Record, b"text");
        assert_eq!(keys.check(Purpose::Record, b"text", &seal), Ok(Some(ours.public().id())));
        assert!(keys.check(Purpose::Release, b"text", &seal).is_err(), "for something else");
        assert!(keys.check(Purpose::Record, b"texT", &seal).is_err(), "altered");
        assert!(keys.check(Purpose::Record, b"text", &theirs.sign(Purpose::Record, b"text")).is_err());
        assert!(keys.check(Purpose::Record, b"text", &Seal::NONE).is_err());
        let mut forged = theirs.sign(Purpose::Record, b"text");
        forged.key = ours.public().id();
        assert!(keys.check(Purpose::Record, b"text", &forged).is_err(), "another's signature under our name");
        let lax = Keys { allows_unsigned: true, ..keys };
        assert_eq!(lax.check(Purpose::Record, b"text", &Seal::NONE), Ok(None));
        assert!(lax.check(Purpose::Record, b"texT", &seal).is_err(), "signed, and wrong");
        assert_eq!(Seal::of(&seal.bytes()), seal);
    }

    #[test]
    fn keys_are_text() {
        let secret = SecretKey::generate().unwrap();
        assert_eq!(SecretKey::parse(&format!("{}\n", secret.text())).unwrap().public(), secret.public());
        assert_eq!(PublicKey::parse(&secret.public().text()), Ok(secret.public()));
        assert!(PublicKey::parse(&secret.text()).unwrap_err().contains("secret key"));
        for bad in ["", "reprise-release-public:", "reprise-release-public:AAAA", "AAAA"] {
            assert!(PublicKey::parse(bad).is_err() && SecretKey::parse(bad).is_err(), "{bad}");
        }
    }
}
