//! Counts connections of each client address. A connection over the limit is closed before a byte of it is read.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Connections that were closed for the limit, since this front began.
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// How many connections were closed for the limit.
pub fn refused() -> u64 {
    REFUSED.load(Ordering::Relaxed)
}

/// Connections by address. Only an address with a connection has an entry, so `max_connections` bounds the table.
#[derive(Clone, Default)]
pub struct Addresses(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// Counts a connection for as long as this lives; `None`: its address has no limit.
pub struct ConnectionPermit(Option<(Addresses, IpAddr)>);

/// The key that counts as one client: of IPv6 the /64, because a client usually has all of it.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
        v4 => v4,
    }
}

impl Addresses {
    /// Counts a connection of this address. A limit of 0 allows any number. `None`: the connection is over the limit.
    pub fn enter(&self, address: IpAddr, limit: usize) -> Option<ConnectionPermit> {
        if limit == 0 {
            return Some(ConnectionPermit::unlimited());
        }
        let address = network(address);
        let mut counts = self.lock();
        let count = counts.entry(address).or_default();
        if *count >= limit {
            REFUSED.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        *count += 1;
        drop(counts);
        Some(ConnectionPermit(Some((self.clone(), address))))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionPermit {
    /// For a connection that is not counted: through a unix socket, from a declared proxy, or to a metrics listener.
    pub fn unlimited() -> ConnectionPermit {
        ConnectionPermit(None)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let Some((addresses, address)) = self.0.take() else { return };
        if let Entry::Occupied(mut count) = addresses.lock().entry(address) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_counted_by_address_and_given_back() {
        let addresses = Addresses::default();
        let enter = |address: &str, limit| addresses.enter(address.parse().unwrap(), limit);
        let first = enter("192.0.2.1", 2).unwrap();
        let second = enter("::ffff:192.0.2.1", 2).unwrap();
        assert!(enter("192.0.2.1", 2).is_none() && enter("192.0.2.2", 2).is_some() && refused() > 0);
        drop(first);
        assert!(enter("192.0.2.1", 2).is_some());
        let third = enter("2001:db8:0:1::1", 1).unwrap();
        assert!(enter("2001:db8:0:1:ffff::2", 1).is_none() && enter("2001:db8:0:2::1", 1).is_some());
        assert!((0..9).all(|_| enter("192.0.2.9", 0).is_some()));
        drop((second, third));
        assert!(addresses.lock().is_empty());
    }
}
