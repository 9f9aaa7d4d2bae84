//! Tickets by which clients resume a connection without a full handshake (RFC 5077, RFC 8446 §4.6.1).
//!
//! A ticket is the state of a connection, encrypted with a key that only servers know. The keys come from the supervisor, or
//! from a file that several servers share, so that tickets outlive a front and are good on each node. The first key encrypts,
//! all of them decrypt.
//!
//! A ticket is `name (16) ‖ salt (32) ‖ AES-256-GCM`. The key of each ticket is derived from the salt (HKDF-SHA-256), so no key
//! encrypts more than one ticket, however long a shared key is used. What is authenticated beside it is the policy under which
//! the ticket was made: a ticket of another policy, or of an older one, is no ticket.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::rand;
use rustls::server::ProducesTickets;

/// Bytes of a key: its name, then what keys are derived from.
pub const KEY_SIZE: usize = 80;
/// Most keys.
pub const MAX_KEYS: usize = 8;
const NAME_SIZE: usize = 16;
const SALT_SIZE: usize = 32;
/// What is derived for a ticket: a key of AES-256, and the nonce of GCM.
const DERIVED: usize = 32 + 12;
const TAG_SIZE: usize = 16;
/// How long clients may keep a ticket. The supervisor keeps keys for longer than that.
pub const LIFETIME_S: u32 = 12 * 3600;

/// The keys that are used now. All certificates share them.
#[derive(Default)]
pub struct KeyRing(RwLock<Arc<Vec<[u8; KEY_SIZE]>>>);

impl KeyRing {
    /// Uses these keys from now on, one after the other. Bytes that are no key are left out.
    pub fn set(&self, bytes: &[u8]) {
        let keys = bytes.chunks_exact(KEY_SIZE).take(MAX_KEYS).filter_map(|key| key.try_into().ok()).collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }

    fn keys(&self) -> Arc<Vec<[u8; KEY_SIZE]>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Makes and reads the tickets of one policy.
pub struct Tickets {
    ring: Arc<KeyRing>,
    policy: [u8; 32],
}

impl Tickets {
    /// With these keys, for connections under that policy.
    pub fn new(ring: Arc<KeyRing>, policy: [u8; 32]) -> Tickets {
        Tickets { ring, policy }
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Tickets")
    }
}

struct Length;

impl KeyType for Length {
    fn len(&self) -> usize {
        DERIVED
    }
}

/// The key and the nonce of the one ticket with this salt.
fn derive(key: &[u8; KEY_SIZE], salt: &[u8]) -> Option<(LessSafeKey, Nonce)> {
    let secret = Salt::new(HKDF_SHA256, salt).extract(&key[NAME_SIZE..]);
    let mut derived = [0; DERIVED];
    secret.expand(&[b"reprise ticket"], Length).ok()?.fill(&mut derived).ok()?;
    let (key, nonce) = derived.split_at(32);
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).ok()?);
    Some((key, Nonce::try_assume_unique_for_key(nonce).ok()?))
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        LIFETIME_S
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let keys = self.ring.keys();
        let key = keys.first()?;
        let mut salt = [0; SALT_SIZE];
        rand::fill(&mut salt).ok()?;
        let (secret, nonce) = derive(key, &salt)?;
        let mut sealed = plain.to_vec();
        secret.seal_in_place_append_tag(nonce, Aad::from(self.policy), &mut sealed).ok()?;
        Some([&key[..NAME_SIZE], &salt, &sealed].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_at_checked(NAME_SIZE)?;
        let (salt, sealed) = rest.split_at_checked(SALT_SIZE)?;
        if sealed.len() < TAG_SIZE {
            return None;
        }
        let keys = self.ring.keys();
        let (secret, nonce) = derive(keys.iter().find(|key| key[..NAME_SIZE] == *name)?, salt)?;
        let mut plain = sealed.to_vec();
        let size = secret.open_in_place(nonce, Aad::from(self.policy), &mut plain).ok()?.len();
        plain.truncate(size);
        Some(plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> [u8; KEY_SIZE] {
        [number; KEY_SIZE]
    }

    fn tickets(keys: &[[u8; KEY_SIZE]], policy: u8) -> Tickets {
        let ring = Arc::new(KeyRing::default());
        ring.set(&keys.concat());
        Tickets::new(ring, [policy; 32])
    }

    #[test]
    fn a_ticket_is_read_by_who_has_its_key() {
        let ticket = tickets(&[key(1)], 0).encrypt(b"state").unwrap();
        assert_eq!(tickets(&[key(1)], 0).decrypt(&ticket).as_deref(), Some(&b"state"[..]), "another front, or node");
        assert_eq!(tickets(&[key(2), key(1)], 0).decrypt(&ticket).as_deref(), Some(&b"state"[..]), "after a rotation");
        assert_eq!(tickets(&[key(2)], 0).decrypt(&ticket), None, "the key is gone");
        assert_eq!(tickets(&[], 0).decrypt(&ticket), None);
        assert_eq!(tickets(&[], 0).encrypt(b"state"), None);
    }

    #[test]
    fn a_ticket_of_another_policy_is_none() {
        let ticket = tickets(&[key(1)], 0).encrypt(b"state").unwrap();
        assert_eq!(tickets(&[key(1)], 1).decrypt(&ticket), None);
    }

    #[test]
    fn each_ticket_is_another_and_no_changed_one_is_read() {
        let tickets = tickets(&[key(1)], 0);
        let ticket = tickets.encrypt(b"state").unwrap();
        assert_ne!(tickets.encrypt(b"state").unwrap(), ticket);
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert_eq!(tickets.decrypt(&changed), None, "byte {at}");
            assert_eq!(tickets.decrypt(&ticket[..at]), None, "the first {at} bytes");
        }
    }

    #[test]
    fn the_newest_key_encrypts() {
        let ticket = tickets(&[key(2), key(1)], 0).encrypt(b"state").unwrap();
        assert_eq!(ticket[..NAME_SIZE], key(2)[..NAME_SIZE]);
        let ring = KeyRing::default();
        ring.set(&[0; KEY_SIZE + 1]);
        assert_eq!(ring.keys().len(), 1, "the rest is no key");
    }
}
