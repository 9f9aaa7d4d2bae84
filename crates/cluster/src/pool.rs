//! Connections to the store, for who asks one thing. A connection that has failed is not used again.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use crate::breaker::Breaker;
use crate::settings::Settings;
use crate::terms::Failed;
use crate::valkey::Valkey;

/// Connections at once.
const MOST: usize = 16;

/// Why nothing was asked, or what failed.
#[derive(Debug)]
pub enum Unasked {
    /// The store has failed, and is not asked for a while; or all connections are taken.
    Away,
    /// It has failed now.
    Failed(Failed),
}

#[derive(Default)]
struct Inner {
    idle: Vec<Valkey>,
    taken: usize,
    breaker: Breaker,
}

/// Shared by all conversations.
pub struct Pool {
    settings: Settings,
    inner: Mutex<Inner>,
    freed: Condvar,
}

impl Pool {
    /// To the store of these settings. Connects when it is asked.
    pub fn new(settings: Settings) -> Pool {
        Pool { settings, inner: Mutex::default(), freed: Condvar::new() }
    }

    /// Asks the store something.
    ///
    /// # Errors
    /// [`Unasked`].
    pub fn ask<T>(&self, what: impl FnOnce(&mut Valkey) -> Result<T, Failed>) -> Result<T, Unasked> {
        let idle = self.take()?;
        let asked = idle.map_or_else(|| Valkey::connect(&self.settings), Ok).and_then(|mut remote| {
            let answer = what(&mut remote)?;
            Ok((answer, remote))
        });
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.taken -= 1;
        self.freed.notify_one();
        match asked {
            Ok((answer, remote)) => {
                inner.breaker.worked();
                inner.idle.push(remote);
                Ok(answer)
            }
            Err(failed) => {
                inner.breaker.failed(Instant::now());
                // The others are as old.
                inner.idle.clear();
                Err(Unasked::Failed(failed))
            }
        }
    }

    fn take(&self) -> Result<Option<Valkey>, Unasked> {
        let patience = self.settings.patience();
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.taken == MOST {
            let is_full = |inner: &mut Inner| inner.taken == MOST;
            inner = self.freed.wait_timeout_while(inner, patience, is_full).unwrap_or_else(PoisonError::into_inner).0;
        }
        if inner.taken == MOST || !inner.breaker.may_ask(Instant::now()) {
            return Err(Unasked::Away);
        }
        inner.taken += 1;
        Ok(inner.idle.pop())
    }
}
