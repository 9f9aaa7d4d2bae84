//! What the threads of the process share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use data_cache::layout::Talked;
use data_cache::view::View;

use crate::envelope::{Change, Message, Position, Sealer};
use crate::known::Known;
use crate::outbox::Outbox;
use crate::pool::Pool;
use crate::settings::Settings;

/// All of it.
pub struct Shared {
    pub settings: Settings,
    pub sealer: Sealer,
    pub pool: Pool,
    pub outbox: Outbox,
    known: Mutex<Known>,
    read: Condvar,
    /// Messages and values whose signature is not right.
    pub forged: AtomicU64,
    pub view: View,
}

impl Shared {
    pub fn new(settings: Settings, view: View) -> Shared {
        Shared {
            sealer: Sealer::new(&settings.application, &settings.secret),
            pool: Pool::new(settings.clone()),
            outbox: Outbox::default(),
            known: Mutex::default(),
            read: Condvar::new(),
            forged: AtomicU64::new(0),
            settings,
            view,
        }
    }

    pub fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the bus was read up to there, at most so long.
    pub fn await_position(&self, position: Position, patience: Duration) {
        let waits = |known: &mut Known| known.position() < position;
        drop(self.read.wait_timeout_while(self.known(), patience, waits).unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits until a message of this node has come back, at most so long: what is computed from then on is as of that.
    pub fn await_own(&self, told: (u64, u64), patience: Duration) {
        let waits = |known: &mut Known| !known.has_come_back(told);
        drop(self.read.wait_timeout_while(self.known(), patience, waits).unwrap_or_else(PoisonError::into_inner));
    }

    /// The bus was read further.
    pub fn has_read(&self) {
        self.read.notify_all();
    }

    /// Something has changed here. It holds for this node at once; the others are told. Returns by what one can wait for that.
    pub fn tell(&self, change: Change) -> (u64, u64) {
        let expect = |sequence: u64, change: &Change| {
            let mut known = self.known();
            if sequence == 1 {
                known.expect_nothing();
            }
            known.expect(sequence, change);
        };
        self.outbox.tell(change, expect, &|waiting| self.view.set_unsent(waiting as u64))
    }

    /// A message that lies in the store with what it says.
    pub fn announcement(&self, key: &[u8], version: u64) -> (Change, Vec<u8>) {
        let change = Change::Key(key.to_vec(), version);
        let message = Message { node: self.outbox.node(), sequence: 0, change: change.clone() };
        (change, self.sealer.seal_message(&message))
    }

    /// Everything until here is known; what is computed from now on is as of this.
    pub fn as_of(&self) -> (u64, Position) {
        let known = self.known();
        (known.bus(), known.position())
    }

    pub fn count_forged(&self) {
        self.view.count_talked(Talked::Forged);
        if self.forged.fetch_add(1, Ordering::Relaxed) == 0 {
            crate::log::log(
                "error",
                "something in the store is not signed with this application's secret, and counts as not there: another \
                 secret on another node, or somebody else writes into the store (docs/guides/data-cache.md)",
            );
        }
    }
}
