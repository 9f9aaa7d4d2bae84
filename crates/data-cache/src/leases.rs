//! Leases: who computes a value, and who has a lock. A lease names its owner's place, so it ends with him.

use core::sync::atomic::Ordering;

use crate::alive::{self, Who};
use crate::layout::Lease;
use crate::points::point;
use crate::process::{Locked, Process};

/// Places in which a lease may be.
const PROBES: u32 = 8;

/// The answer to who asks for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is the asker's.
    Mine(u32),
    /// The asker has it already.
    Own(u32),
    /// Another has it: the lease, the word to wait with, and his process id.
    Held(u32, u32, u32),
    /// There is no room for one more, or none for this process.
    NoRoom,
}

impl Process {
    /// Asks for the lease of a hash for so many milliseconds.
    pub fn lease(&mut self, hash: u64, now: u64, milliseconds: u64) -> Answer {
        let Some(mut locked) = self.lock() else { return Answer::NoRoom };
        let (view, place) = (locked.view(), locked.process.place());
        let places = (0..PROBES).map(|step| (hash as u32).wrapping_add(step) % view.geometry.lease_count);
        let mut free = None;
        for number in places {
            let lease = view.lease(number);
            let (is, owner) = (lease.hash.load(Ordering::Relaxed), lease.owner.load(Ordering::Relaxed));
            if is == hash && owner != 0 {
                if owner == place {
                    return Answer::Own(number);
                }
                // Nobody may have reaped the owner: the parent of a child that a request has forked need not.
                let who = Who(view.reader(owner - 1).who.load(Ordering::Acquire));
                if lease.until.load(Ordering::Relaxed) > now && who.0 != 0 && !who.is_dead() {
                    return Answer::Held(number, lease.word.load(Ordering::Acquire), who.pid());
                }
                free = Some(number);
                break;
            }
            if owner == 0 || lease.until.load(Ordering::Relaxed) <= now {
                free = free.or(Some(number));
            }
        }
        let Some(number) = free else { return Answer::NoRoom };
        let lease = view.lease(number);
        // Whoever waited for the one before looks again.
        locked.wake(lease);
        lease.owner.store(0, Ordering::Relaxed);
        lease.hash.store(hash, Ordering::Relaxed);
        lease.since.store(now, Ordering::Relaxed);
        lease.until.store(now.saturating_add(milliseconds), Ordering::Relaxed);
        point();
        lease.owner.store(place, Ordering::Release);
        locked.process.leases += 1;
        Answer::Mine(number)
    }

    /// Gives a lease back, if it is still this process'. Whether it was.
    pub fn release(&mut self, number: u32, hash: u64) -> bool {
        let Some(mut locked) = self.lock() else { return false };
        let (lease, place) = (locked.view().lease(number), locked.process.place());
        let is_own = lease.owner.load(Ordering::Relaxed) == place && lease.hash.load(Ordering::Relaxed) == hash;
        if is_own {
            locked.give_up(lease);
            locked.process.leases = locked.process.leases.saturating_sub(1);
        }
        is_own
    }

    /// Gives all leases back.
    pub fn release_all(&mut self) {
        let place = self.place();
        if place != 0 && self.leases > 0 {
            if let Some(mut locked) = self.lock() {
                locked.release_of(place - 1);
            }
        }
        self.leases = 0;
    }

    /// Sleeps until a lease may be free, at most so long. If its owner is dead it is free then.
    pub fn wait(&mut self, number: u32, word: u32, milliseconds: u32) {
        let lease = self.view.lease(number);
        alive::sleep_on(&lease.word, word, milliseconds);
        if lease.word.load(Ordering::Acquire) == word {
            let owner = lease.owner.load(Ordering::Acquire);
            if owner != 0 {
                let who = Who(self.view.reader(owner - 1).who.load(Ordering::Acquire));
                if who.is_dead() {
                    self.sweep(Some(who.pid()));
                }
            }
        }
    }
}

impl Locked<'_> {
    fn wake(&mut self, lease: &Lease) {
        lease.word.fetch_add(1, Ordering::AcqRel);
        alive::wake(&lease.word);
    }

    fn give_up(&mut self, lease: &Lease) {
        lease.owner.store(0, Ordering::Release);
        point();
        lease.hash.store(0, Ordering::Relaxed);
        self.wake(lease);
    }

    pub(crate) fn release_of(&mut self, reader: u32) {
        let view = self.view();
        for number in 0..view.geometry.lease_count {
            let lease = view.lease(number);
            if lease.owner.load(Ordering::Relaxed) == reader + 1 {
                self.give_up(lease);
            }
        }
    }
}
