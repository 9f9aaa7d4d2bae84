//! TLS tickets: one that a server with the same keys and policy has made is read, whole and unchanged; nothing else is a ticket.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, OnceLock};

use certificates::tickets::{KEY_SIZE, KeyRing, MAX_KEYS, Tickets};
use rustls::server::ProducesTickets;

/// What the supervisor may have sent as keys, and tickets by them.
fn tickets(keys: &[u8], policy: u8) -> Tickets {
    let ring = Arc::new(KeyRing::default());
    ring.set(keys);
    Tickets::new(ring, [policy; 32])
}

/// Keys that no input has, by which no ticket is made.
fn secret() -> &'static [u8; KEY_SIZE] {
    static SECRET: OnceLock<[u8; KEY_SIZE]> = OnceLock::new();
    SECRET.get_or_init(|| {
        let random: Vec<u8> =
            (0..KEY_SIZE / 8).flat_map(|part| RandomState::new().hash_one(part).to_ne_bytes()).collect();
        random.try_into().expect("as long as a key")
    })
}

/// A byte that says how many bytes are keys, eight at a time; those bytes; a byte that says how many changes there are; three bytes for each
/// change; what the ticket holds.
pub fn check(input: &[u8]) {
    let Some((&eighths, rest)) = input.split_first() else { return };
    let Some((keys, rest)) = rest.split_at_checked(usize::from(eighths) * 8) else { return };
    let Some((&changes, rest)) = rest.split_first() else { return };
    let Some((changes, state)) = rest.split_at_checked(usize::from(changes % 8) * 3) else { return };
    let own = tickets(keys, 0);
    let parts = keys.chunks_exact(KEY_SIZE).take(MAX_KEYS).map(|key| key.split_at(16));
    let names = parts.clone().map(|(name, _)| name);
    // Under two names one key is two keys.
    if parts.clone().any(|(name, one)| parts.clone().any(|(other, key)| one == key && name != other)) {
        return;
    }
    // Bytes of who has no key are no ticket, also with the name of a key, which each ticket shows.
    let others = tickets(secret(), 0);
    assert_eq!(others.decrypt(state), None);
    assert_eq!(others.decrypt(&[&secret()[..16], state].concat()), None);
    let Some(ticket) = own.encrypt(state) else {
        assert!(keys.len() < KEY_SIZE);
        return;
    };
    assert_eq!(Some(&ticket[..16]), names.clone().next(), "the first key encrypts");
    assert_eq!(own.decrypt(&ticket).as_deref(), Some(state));
    assert_eq!(tickets(keys, 1).decrypt(&ticket), None, "another policy");
    // Another key of that name would come first; behind another, the key still decrypts.
    let behind = [&[0xa5; KEY_SIZE], &keys[..KEY_SIZE]].concat();
    if ticket[..16] != [0xa5; 16] {
        assert_eq!(tickets(&behind, 0).decrypt(&ticket).as_deref(), Some(state), "after a rotation");
    }
    let mut changed = ticket.clone();
    for change in changes.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]]));
        match change[2] {
            0 => changed.truncate(at % (changed.len() + 1)),
            1 => changed.push(change[0]),
            2 => drop((!changed.is_empty()).then(|| changed.remove(at % changed.len()))),
            // The name of another key.
            3 => {
                if let Some(name) = names.clone().nth(at).filter(|_| changed.len() >= 16) {
                    changed[..16].copy_from_slice(name);
                }
            }
            bits if !changed.is_empty() => {
                let at = at % changed.len();
                changed[at] ^= bits;
            }
            _ => {}
        }
    }
    let read = own.decrypt(&changed);
    assert_eq!(read.as_deref(), (changed == ticket).then_some(state));
}
