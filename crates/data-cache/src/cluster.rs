//! What processes of an application know of other nodes, by the process that talks to the store which they share.

use core::sync::atomic::Ordering;

use crate::layout::Talked;
use crate::numbers::StoreNumbers;
use crate::view::View;

/// For so many milliseconds the process that talks to the store counts as ready after it has said so.
pub const READY_FOR: u64 = 1500;

/// The same for its saying that it lives.
pub const ALIVE_FOR: u64 = 1000;

/// A value from the store may be older than this node knows by as much as the process counts as ready without news. Values are good for so much
/// shorter here.
fn slack(staleness: u64) -> u64 {
    if staleness == 0 { READY_FOR } else { READY_FOR.min(staleness / 2) }
}

impl View {
    /// Whether there is a store, and for how many milliseconds a value is good without news of other nodes; 0: for ever, because there are none.
    pub fn set_store(&self, is_there: bool, staleness: u64) {
        self.header().cluster.has_store.store(u64::from(is_there), Ordering::Release);
        self.header().cluster.staleness.store(staleness, Ordering::Release);
    }

    /// Whether a value that was stored then may still be given out: since then, or since all news were heard, not more time has passed than
    /// without news it may.
    pub(crate) fn is_fresh(&self, stored: u64, now: u64) -> bool {
        let cluster = &self.header().cluster;
        let staleness = cluster.staleness.load(Ordering::Acquire);
        staleness == 0
            || now.saturating_sub(stored.max(cluster.heard.load(Ordering::Acquire))) <= staleness - slack(staleness)
    }

    /// Whether somebody takes requests for the store.
    pub fn is_store_ready(&self, now: u64) -> bool {
        let ready = self.header().cluster.ready.load(Ordering::Acquire);
        ready != 0 && now.saturating_sub(ready) < slack(self.header().cluster.staleness.load(Ordering::Acquire))
    }

    /// The process that talks to the store lives.
    pub fn set_alive(&self, now: u64) {
        self.header().cluster.alive.store(now, Ordering::Release);
    }

    /// Whether that process has said lately that it lives, whatever the store does.
    pub fn is_talker_alive(&self, now: u64) -> bool {
        let alive = self.header().cluster.alive.load(Ordering::Acquire);
        alive != 0 && now.saturating_sub(alive) < ALIVE_FOR
    }

    /// Counts what concerns many values. Who got a value from elsewhere puts it here only if this has stayed the same since he asked.
    pub fn news(&self) -> u64 {
        self.header().cluster.news.load(Ordering::SeqCst)
    }

    pub(crate) fn announce(&self) {
        self.header().cluster.news.fetch_add(1, Ordering::SeqCst);
    }

    /// Something was changed of which other nodes are not told. Whoever can tell them next says that everything has changed.
    pub fn owe(&self) {
        self.header().cluster.untold.fetch_add(1, Ordering::AcqRel);
    }

    /// What was owed until now, if it has not been seen yet; [`View::has_told`] takes it.
    pub fn owed(&self) -> Option<u64> {
        let cluster = &self.header().cluster;
        let owed = cluster.untold.load(Ordering::Acquire);
        (owed != cluster.told.load(Ordering::Acquire)).then_some(owed)
    }

    /// Other nodes were told.
    pub fn has_told(&self, owed: u64) {
        self.header().cluster.told.store(owed, Ordering::Release);
    }

    /// How many changes that process has taken and not told yet: if it dies, the next one finds that.
    pub fn set_unsent(&self, changes: u64) {
        self.header().cluster.unsent.store(changes, Ordering::Release);
    }

    /// What [`View::set_unsent`] said last.
    pub fn unsent(&self) -> u64 {
        self.header().cluster.unsent.load(Ordering::Acquire)
    }

    /// The name of the bus that was read, and how far.
    pub fn position(&self) -> (u64, [u64; 2]) {
        let cluster = &self.header().cluster;
        let [first, second] = &cluster.position;
        (cluster.bus.load(Ordering::Acquire), [first.load(Ordering::Acquire), second.load(Ordering::Acquire)])
    }

    /// One process alone says this. If it dies in between, the position belongs to no bus, and everything counts as changed.
    pub fn set_position(&self, bus: u64, position: [u64; 2]) {
        let cluster = &self.header().cluster;
        cluster.bus.store(0, Ordering::Release);
        for (word, number) in cluster.position.iter().zip(position) {
            word.store(number, Ordering::Release);
        }
        cluster.bus.store(bus, Ordering::Release);
    }

    /// The process that talks to the store counts.
    pub fn count_talked(&self, what: Talked) {
        self.header().cluster.counted[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// What is known of the store. `None`: there is none.
    pub fn store_numbers(&self, now: u64) -> Option<StoreNumbers> {
        let cluster = &self.header().cluster;
        let counted = |what: Talked| cluster.counted[what as usize].load(Ordering::Relaxed);
        (cluster.has_store.load(Ordering::Acquire) != 0).then(|| StoreNumbers {
            is_ready: self.is_store_ready(now),
            heard_ms: match cluster.heard.load(Ordering::Acquire) {
                0 => None,
                heard => Some(now.saturating_sub(heard)),
            },
            untold: self.unsent().saturating_add(u64::from(self.owed().is_some())),
            requests: counted(Talked::Requests),
            failures: counted(Talked::Failures),
            forged: counted(Talked::Forged),
        })
    }

    /// All news until `now` were heard.
    pub fn set_heard(&self, now: u64) {
        self.header().cluster.heard.store(now, Ordering::Release);
    }

    /// Requests for the store are taken; `None`: they are not.
    pub fn set_ready(&self, now: Option<u64>) {
        self.header().cluster.ready.store(now.unwrap_or(0), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use super::*;

    fn view() -> View {
        let name = CString::new("test").unwrap();
        // SAFETY: plain calls with sizes and a name; the mapping stays.
        unsafe {
            let file = libc_memfd(name.as_ptr());
            View::attach(file, 0x30_0000_0000, crate::layout::SMALLEST, b"test").unwrap()
        }
    }

    unsafe extern "C" {
        fn memfd_create(name: *const core::ffi::c_char, flags: u32) -> i32;
        fn ftruncate(file: i32, size: i64) -> i32;
        fn fcntl(file: i32, command: i32, ...) -> i32;
    }

    unsafe fn libc_memfd(name: *const core::ffi::c_char) -> i32 {
        // SAFETY: by contract.
        unsafe {
            let file = memfd_create(name, 2);
            assert_eq!(ftruncate(file, crate::layout::SMALLEST as i64), 0);
            assert_eq!(fcntl(file, 1033, 7), 0);
            file
        }
    }

    #[test]
    fn values_are_fresh_for_so_long_after_news_or_since_they_were_stored() {
        let view = view();
        assert!(view.is_fresh(0, u64::MAX) && view.store_numbers(1).is_none());
        view.set_store(true, 100);
        assert!(view.is_fresh(50, 100) && !view.is_fresh(50, 101));
        view.set_heard(120);
        assert!(view.is_fresh(50, 170) && !view.is_fresh(50, 171) && view.is_fresh(121, 171));
        assert!(!view.is_store_ready(1));
        view.set_ready(Some(1000));
        assert!(view.is_store_ready(1000 + 49) && !view.is_store_ready(1000 + 50));
        view.set_alive(1000);
        assert!(view.is_talker_alive(1999) && !view.is_talker_alive(2000));
        assert_eq!(view.owed(), None);
        view.owe();
        assert_eq!(view.owed(), Some(1));
        view.has_told(1);
        assert_eq!((view.owed(), view.position()), (None, (0, [0, 0])));
        view.set_unsent(3);
        view.count_talked(Talked::Failures);
        let numbers = view.store_numbers(1000).expect("a store");
        assert_eq!((numbers.is_ready, numbers.heard_ms, numbers.untold), (true, Some(880), 3));
        assert_eq!((numbers.requests, numbers.failures, numbers.forged), (0, 1, 0));
        view.set_position(7, [8, 9]);
        assert_eq!(view.position(), (7, [8, 9]));
        let joined = View::join(-1, 0x30_0000_0000, crate::layout::SMALLEST);
        assert!(joined.is_err());
    }
}
