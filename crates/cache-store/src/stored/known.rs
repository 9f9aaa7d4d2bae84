//! What the last response to each URL has said, beside the stored responses: why it could not be shared, or that it could.
//!
//! That a page can be shared decides whether requests wait for each other, so it outlives the front: the supervisor keeps it
//! ([`crate::learned`]) as numbers, which are hashes of the URLs. Nobody can choose a URL that has the number of another one, because
//! the numbers depend on a seed that stays secret.

use std::hash::{BuildHasher, DefaultHasher, Hasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use cache::key::Key;
use cache::status::Why;
use quick_cache::sync::Cache;
use quick_cache::{UnitWeighter, Weighter};

use super::entry::OVERHEAD;

/// URLs of which it is remembered that their responses can be shared, at most; what is asked for seldom goes first.
const MOST_SHARED: usize = 4096;
/// Bytes of the seed, and of each number.
const NUMBER: usize = 8;
/// Bytes of what the supervisor keeps of an application, at most.
pub const SIZE: usize = NUMBER * (1 + MOST_SHARED);

#[derive(Clone)]
struct ByLength;

impl Weighter<Key, Why> for ByLength {
    fn weight(&self, key: &Key, _: &Why) -> u64 {
        (key.as_bytes().len() + OVERHEAD / 4) as u64
    }
}

/// What is known of the URLs of one application.
pub struct Known {
    /// URLs and variants whose last response could not be shared: each response is looked at anew, and nobody waits for it.
    unshared: Cache<Key, Why, ByLength>,
    /// The numbers of URLs whose last response could be shared.
    shared: Cache<u64, ()>,
    seed: OnceLock<u64>,
    /// Whether `shared` has changed since [`Known::news`].
    is_changed: AtomicBool,
}

impl Known {
    /// Nothing yet, with so many bytes for URLs that cannot be shared.
    pub fn new(budget: u64) -> Known {
        Known {
            unshared: Cache::with_weighter((budget / 256).max(16) as usize, budget, ByLength),
            shared: Cache::with_weighter(64, MOST_SHARED as u64, UnitWeighter),
            seed: OnceLock::new(),
            is_changed: AtomicBool::new(false),
        }
    }

    /// Another number of bytes.
    pub fn resize(&self, budget: u64) {
        self.unshared.set_capacity(budget);
    }

    /// Why the last response to a URL or variant could not be shared.
    pub fn why_not(&self, key: &Key) -> Option<Why> {
        self.unshared.get(key)
    }

    /// Whether the last response to a URL could be shared.
    pub fn is_shared(&self, url: &Key) -> bool {
        self.shared.get(&self.number(url)).is_some()
    }

    /// The response to a URL can be shared.
    pub fn share(&self, url: &Key) {
        self.unshared.remove(url);
        if !self.is_shared(url) {
            self.shared.insert(self.number(url), ());
            self.is_changed.store(true, Ordering::Release);
        }
    }

    /// The response to a URL or variant cannot be shared, for this reason.
    pub fn pass(&self, key: Key, why: Why) {
        if self.shared.remove(&self.number(&key)).is_some() {
            self.is_changed.store(true, Ordering::Release);
        }
        self.unshared.insert(key, why);
    }

    /// Forgets that the response to a URL or variant could not be shared.
    pub fn forget(&self, key: &Key) {
        self.unshared.remove(key);
    }

    fn seed(&self) -> u64 {
        *self.seed.get_or_init(|| RandomState::new().hash_one(0))
    }

    fn number(&self, url: &Key) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.seed());
        hasher.write(url.as_bytes());
        hasher.finish()
    }

    /// Which URLs can be shared, if that is not what was told last: the seed, then the numbers.
    pub fn news(&self) -> Option<Vec<u8>> {
        if !self.is_changed.swap(false, Ordering::AcqRel) {
            return None;
        }
        let numbers = self.shared.iter().map(|(number, ())| number).take(MOST_SHARED);
        Some(std::iter::once(self.seed()).chain(numbers).flat_map(u64::to_le_bytes).collect())
    }

    /// Takes what an earlier front has told, unless this one knows something already.
    pub fn restore(&self, told: &[u8]) {
        let mut numbers =
            told.chunks_exact(NUMBER).map(|bytes| bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte)));
        if numbers.next().is_some_and(|seed| self.seed.set(seed).is_ok()) {
            numbers.take(MOST_SHARED).for_each(|number| self.shared.insert(number, ()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(number: usize) -> Key {
        let mut url = Key::new();
        url.add(format!("/{number}").as_bytes());
        url
    }

    #[test]
    fn the_next_front_knows_what_was_shared_and_nothing_else() {
        let before = Known::new(1 << 20);
        assert!(before.news().is_none());
        (0..100).for_each(|number| before.share(&url(number)));
        before.pass(url(7), Why::NoFreshness);
        let told = before.news().unwrap();
        assert!(before.news().is_none(), "it has not changed");
        let after = Known::new(1 << 20);
        after.restore(&told);
        for number in 0..200 {
            assert_eq!(after.is_shared(&url(number)), number < 100 && number != 7, "{number}");
        }
        // Without the seed a number says nothing of a URL.
        let other = Known::new(1 << 20);
        other.share(&url(1000));
        other.restore(&told);
        assert!(!other.is_shared(&url(1)));
    }

    #[test]
    fn what_is_remembered_has_a_limit() {
        const BUDGET: u64 = 128 * 1024;
        let known = Known::new(BUDGET);
        known.pass(url(0), Why::NoFreshness);
        known.share(&url(1));
        for number in 2..100_000 {
            known.pass(url(number), Why::NoFreshness);
            known.share(&url(number));
            known.pass(url(number), Why::NoFreshness);
            known.share(&url(200_000 + number));
            assert!(
                known.why_not(&url(0)).is_some() && known.is_shared(&url(1)),
                "what is asked for often stays: {number}"
            );
        }
        assert!(known.unshared.weight() <= BUDGET && known.unshared.len() > 100);
        assert!(known.news().unwrap().len() <= SIZE);
    }
}
