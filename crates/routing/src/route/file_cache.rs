//! Open files and the bytes of small ones, kept for a moment for the requests that follow. Each thread has a cache of its own.
//!
//! What may be sent is decided by [`super::look`]: links, hidden names, denials. Its decision is believed for as long as the
//! option `file_cache_time` says, which is also how long anything is kept. Within that time each request asks the kernel what
//! lies at the path now, by one system call. The kept file is sent if that is the same file, and if neither its bytes nor its
//! permissions have changed since (its change time is the same). So another file in its place, a file that is gone and one that
//! was written to are noticed by the next request; only what directories and links on the way have become is noticed later.
//!
//! The kernel's clock of files goes in steps: a file that is written twice in one step has the same times after both writes. So
//! a file is kept only if it has not changed for [`SETTLED`]. What is written through a memory mapping may change without any
//! time changing; that is noticed when the time is over.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::IoSliceMut;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use rustix::fs::Stat;
use rustix::io::{ReadWriteFlags, preadv2};

use super::{Found, Terms};
use crate::settings::{FileCacheLimits, Links};

/// How long a file must not have changed before it is kept.
const SETTLED: Duration = Duration::from_secs(2);
/// What a file costs besides its bytes: its name, its headers, its places in the tables.
const OVERHEAD: u64 = 1024;

/// What the caches of all threads have done, and what they hold now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Files that were sent from what was kept.
    pub hits: u64,
    /// Files that had to be opened.
    pub misses: u64,
    /// Files that were found to be changed or gone; each is also a miss if there is a file again.
    pub changed: u64,
    /// Files that made room for others before their time was over.
    pub evictions: u64,
    /// Files that are kept.
    pub files: u64,
    /// Bytes that they take.
    pub bytes: u64,
}

static HITS: AtomicU64 = AtomicU64::new(0);
static MISSES: AtomicU64 = AtomicU64::new(0);
static CHANGED: AtomicU64 = AtomicU64::new(0);
static EVICTIONS: AtomicU64 = AtomicU64::new(0);
static FILES: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

/// The counters of all threads.
pub fn counts() -> Counts {
    let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
    Counts {
        hits: read(&HITS),
        misses: read(&MISSES),
        changed: read(&CHANGED),
        evictions: read(&EVICTIONS),
        files: read(&FILES),
        bytes: read(&BYTES),
    }
}

fn count(number: &AtomicU64) {
    number.fetch_add(1, Ordering::Relaxed);
}

/// A file that is kept.
struct Kept {
    found: Arc<Found>,
    since: Instant,
    stat: Stat,
    generation: u32,
    root: PathBuf,
    follow: Vec<PathBuf>,
    links: Links,
    denials: (bool, bool),
}

impl Kept {
    /// Whether it was decided on the same terms that it may be sent.
    fn is_on(&self, terms: &Terms<'_>) -> bool {
        let is_same = self.generation == terms.generation && self.denials == (terms.has_denials, terms.is_allowed);
        let is_linked_alike = self.follow == terms.follow && self.links == terms.links;
        is_same && self.root == terms.root && is_linked_alike
    }

    fn cost(&self) -> u64 {
        self.found.body.as_ref().map_or(0, |body| body.len() as u64) + OVERHEAD
    }
}

/// The cache of a thread.
#[derive(Default)]
struct Cache {
    limits: FileCacheLimits,
    kept: HashMap<PathBuf, Kept>,
    /// The same in the order in which they were put in, which is the order in which their time is over.
    order: VecDeque<(Instant, PathBuf)>,
    bytes: u64,
}

thread_local! {
    /// Without limits nothing is kept: so it is where there is no front, as in `reprise route`.
    static CACHE: RefCell<Cache> = RefCell::default();
}

impl Cache {
    fn remove(&mut self, path: &Path) {
        if let Some(kept) = self.kept.remove(path) {
            self.bytes -= kept.cost();
            FILES.fetch_sub(1, Ordering::Relaxed);
            BYTES.fetch_sub(kept.cost(), Ordering::Relaxed);
        }
    }

    /// Removes the oldest one. `true`: it was there until now.
    fn remove_oldest(&mut self) -> bool {
        let Some((since, path)) = self.order.pop_front() else { return false };
        let is_same = self.kept.get(&path).is_some_and(|kept| kept.since == since);
        if is_same {
            self.remove(&path);
        }
        is_same
    }

    fn remove_overdue(&mut self, now: Instant) {
        while self.order.front().is_some_and(|(since, _)| now.duration_since(*since) >= self.limits.time) {
            self.remove_oldest();
        }
    }

    fn put(&mut self, path: PathBuf, kept: Kept) {
        let cost = kept.cost();
        if cost > self.limits.memory {
            return;
        }
        self.remove_overdue(kept.since);
        self.remove(&path);
        while self.order.len() as u64 >= self.limits.files || self.bytes + cost > self.limits.memory {
            if self.order.is_empty() {
                return;
            }
            if self.remove_oldest() {
                count(&EVICTIONS);
            }
        }
        self.bytes += cost;
        FILES.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(cost, Ordering::Relaxed);
        self.order.push_back((kept.since, path.clone()));
        self.kept.insert(path, kept);
    }
}

/// Sets this thread's limits, and drops what is overdue. With other limits, or after a reload (`is_renewed`), everything is
/// dropped. The front calls it several times a second, so nothing is held open for longer because nobody asks for it.
pub fn tend(limits: FileCacheLimits, is_renewed: bool, now: Instant) {
    CACHE.with_borrow_mut(|cache| {
        if is_renewed || cache.limits != limits {
            while !cache.order.is_empty() {
                cache.remove_oldest();
            }
            cache.limits = limits;
        }
        cache.remove_overdue(now);
    });
}

/// The file at a path, if it is kept and still the same.
pub(super) fn find(terms: &Terms<'_>, path: &Path) -> Option<Arc<Found>> {
    CACHE.with_borrow_mut(|cache| {
        let kept = cache.kept.get(path).filter(|kept| kept.is_on(terms))?;
        if kept.since.elapsed() >= cache.limits.time {
            cache.remove(path);
            return None;
        }
        if rustix::fs::stat(path).is_ok_and(|now| is_same(&kept.stat, &now)) {
            count(&HITS);
            return Some(kept.found.clone());
        }
        count(&CHANGED);
        cache.remove(path);
        None
    })
}

/// Takes a file that was found on these terms and opened; keeps it if it can be.
pub(super) fn keep(terms: &Terms<'_>, path: PathBuf, file: File, stat: Stat) -> Arc<Found> {
    CACHE.with_borrow_mut(|cache| {
        count(&MISSES);
        let is_kept = cache.limits.files > 0 && cache.limits.memory > 0 && is_settled(&stat, SystemTime::now());
        let wanted = stat.st_size.max(0) as u64;
        let has_body = is_kept && (1..=cache.limits.body).contains(&wanted);
        let body = if has_body { whole(&file, wanted) } else { None };
        // If reading might wait, the next request tries again.
        let is_kept = is_kept && (body.is_some() || !has_body);
        let found = Arc::new(Found::new(file, path.as_path().into(), &stat, body));
        if is_kept {
            cache.put(
                path,
                Kept {
                    found: found.clone(),
                    since: Instant::now(),
                    stat,
                    generation: terms.generation,
                    root: terms.root.to_owned(),
                    follow: terms.follow.to_vec(),
                    links: terms.links,
                    denials: (terms.has_denials, terms.is_allowed),
                },
            );
        }
        found
    })
}

/// All bytes of a file, if they can be read without waiting and are as many as expected.
fn whole(file: &File, size: u64) -> Option<Bytes> {
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    let count = preadv2(file, &mut [IoSliceMut::new(&mut bytes)], 0, ReadWriteFlags::NOWAIT).ok()?;
    (count == bytes.len()).then(|| Bytes::from(bytes))
}

/// Whether two looks have seen the same file, unchanged.
fn is_same(then: &Stat, now: &Stat) -> bool {
    let of = |stat: &Stat| {
        let times = (stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec);
        (stat.st_dev, stat.st_ino, stat.st_mode, stat.st_size, times)
    };
    of(then) == of(now)
}

/// Whether a file has not changed for a while. The kernel's times are whole steps, so a part of a second counts for nothing. A
/// change in the future says nothing.
fn is_settled(stat: &Stat, now: SystemTime) -> bool {
    let changed = UNIX_EPOCH + Duration::from_secs(stat.st_ctime.max(0) as u64 + 1);
    now.duration_since(changed).is_ok_and(|since| since > SETTLED)
}

#[cfg(test)]
#[path = "file_cache/tests.rs"]
mod tests;
