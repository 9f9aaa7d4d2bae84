//! Requests at once of one client address.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::refusal::Refusal;

/// How many requests each address has. Holds those alone that have one.
#[derive(Default)]
pub struct Clients(Arc<Mutex<HashMap<String, usize>>>);

/// One of them, until it is dropped.
pub struct Place {
    counts: Arc<Mutex<HashMap<String, usize>>>,
    address: String,
}

fn lock(counts: &Mutex<HashMap<String, usize>>) -> MutexGuard<'_, HashMap<String, usize>> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Clients {
    /// Takes a place. `limit` 0: any number, and none is counted. Who comes through a unix socket without saying for whom
    /// is nobody in particular.
    pub fn enter(&self, address: &str, limit: usize) -> Result<Option<Place>, Refusal> {
        if limit == 0 || address == "unix:" {
            return Ok(None);
        }
        let mut counts = lock(&self.0);
        match counts.get_mut(address) {
            Some(count) if *count >= limit => return Err(Refusal::ClientBusy),
            Some(count) => *count += 1,
            None => drop(counts.insert(address.to_owned(), 1)),
        }
        Ok(Some(Place { counts: self.0.clone(), address: address.to_owned() }))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = lock(&self.counts);
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_and_given_back() {
        let clients = Clients::default();
        let first = clients.enter("192.0.2.1", 2).unwrap();
        let _second = clients.enter("192.0.2.1", 2).unwrap();
        assert!(clients.enter("192.0.2.1", 2).is_err() && clients.enter("192.0.2.2", 2).is_ok());
        drop(first);
        assert!(clients.enter("192.0.2.1", 2).is_ok());
        assert!((0..9).all(|_| clients.enter("192.0.2.1", 0).is_ok() && clients.enter("unix:", 1).is_ok()));
        drop(_second);
        assert!(lock(&clients.0).is_empty());
    }
}
