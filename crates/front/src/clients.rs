//! Limits how many requests of one client address run or wait at once: per application, and per path that has a limit of
//! its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use routing::refusal::Refusal;

/// Application, path (empty: all that have no limit of their own), address.
type Account = [String; 3];
type Counts = HashMap<Account, usize>;

/// How many requests each address has. An address without a request has no entry.
#[derive(Default)]
pub struct Clients(Arc<Mutex<Counts>>);

/// A permit for one request, until it is dropped.
pub struct ClientPermit {
    counts: Arc<Mutex<Counts>>,
    account: Account,
}

fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Clients {
    /// Takes a permit. `limit` 0: any number, and the request is not counted. A client behind a unix socket that names no
    /// address has no limit either.
    pub fn enter(&self, account: [&str; 3], limit: usize) -> Result<Option<ClientPermit>, Refusal> {
        if limit == 0 || account[2] == "unix:" {
            return Ok(None);
        }
        let account = account.map(str::to_owned);
        let mut counts = lock(&self.0);
        match counts.get_mut(&account) {
            Some(count) if *count >= limit => return Err(Refusal::ClientBusy),
            Some(count) => *count += 1,
            None => drop(counts.insert(account.clone(), 1)),
        }
        Ok(Some(ClientPermit { counts: self.0.clone(), account }))
    }
}

impl Drop for ClientPermit {
    fn drop(&mut self) {
        let mut counts = lock(&self.counts);
        if let Some(count) = counts.get_mut(&self.account) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.account);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_are_counted_and_given_back() {
        let clients = Clients::default();
        let enter = |address, limit| clients.enter(["shop", "/cart", address], limit);
        let first = enter("192.0.2.1", 2).unwrap();
        let _second = enter("192.0.2.1", 2).unwrap();
        assert!(enter("192.0.2.1", 2).is_err() && enter("192.0.2.2", 2).is_ok());
        let elsewhere = |application, path| clients.enter([application, path, "192.0.2.1"], 2).is_ok();
        assert!(elsewhere("shop", "") && elsewhere("blog", "/cart"));
        drop(first);
        assert!(enter("192.0.2.1", 2).is_ok());
        assert!((0..9).all(|_| enter("192.0.2.1", 0).is_ok() && enter("unix:", 1).is_ok()));
        drop(_second);
        assert!(lock(&clients.0).is_empty());
    }
}
