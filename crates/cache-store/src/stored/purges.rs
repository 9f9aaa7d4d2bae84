//! What was purged. A purge writes a number beside a name, and looks at no response: a response is looked at when it is asked for, and is gone if one
//! of its names has a later number than its own request. So a purge takes the same time for one response and for all.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use cache::purge::{Purge, What};

use super::asking::Place;
use super::entry::{Entry, Since};

/// Names that are remembered. If there are more, the older half is forgotten, and everything that is as old as they are is gone.
const MOST_NAMES: usize = 65_536;
/// Prefixes that are remembered, in the same way.
const MOST_PREFIXES: usize = 256;

/// What has become of a response since its request began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purged {
    /// Nothing.
    No,
    /// It is stale.
    Softly,
    /// It must not be sent again.
    Gone,
}

/// The numbers of the last purges of something; 0: there was none.
#[derive(Clone, Copy, Default)]
struct Mark {
    hard: u64,
    soft: u64,
}

/// All that was purged in an application's cache.
pub struct Purges {
    /// Purges so far.
    number: AtomicU64,
    marks: RwLock<Marks>,
    hasher: RandomState,
}

#[derive(Default)]
struct Marks {
    /// What is older than that is gone.
    all: Mark,
    /// By the hash of a name. Two names with one hash purge too much, never too little.
    names: HashMap<u64, Mark>,
    prefixes: Vec<(Option<String>, String, Mark)>,
}

/// Under which no response is stored, and nothing is purged: who has it may do both.
pub struct Still<'p>(RwLockReadGuard<'p, Marks>);

impl Default for Purges {
    fn default() -> Purges {
        // Zero stands for no purge.
        Purges { number: AtomicU64::new(1), marks: RwLock::default(), hasher: RandomState::new() }
    }
}

impl Purges {
    /// The number of the last purge.
    pub fn now(&self) -> Since {
        Since(self.number.load(Ordering::SeqCst))
    }

    /// The names by which a response can be purged, beside prefixes.
    pub fn names(&self, place: &Place, tags: &[String]) -> Vec<u64> {
        let mut names = vec![self.of_target(&place.target), self.of_url(&place.host, &place.target)];
        names.extend(tags.iter().map(|tag| self.of_tag(tag)));
        names
    }

    fn of_target(&self, target: &str) -> u64 {
        self.hasher.hash_one((1u8, target))
    }

    fn of_url(&self, host: &str, target: &str) -> u64 {
        self.hasher.hash_one((2u8, host.to_ascii_lowercase(), target))
    }

    fn of_tag(&self, tag: &str) -> u64 {
        self.hasher.hash_one((3u8, tag))
    }

    fn write(&self) -> RwLockWriteGuard<'_, Marks> {
        self.marks.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Purges. `while_still` runs before anything is stored or purged again.
    pub fn purge(&self, purge: &Purge, while_still: impl FnOnce()) {
        let mut marks = self.write();
        let number = self.number.load(Ordering::SeqCst) + 1;
        for what in &purge.whats {
            match what {
                What::All => marks.all.set(number, purge.is_soft),
                What::Tag(tag) => marks.note(self.of_tag(tag), number, purge.is_soft),
                What::Url(url) => {
                    let name = match split(url) {
                        (Some(host), target) => self.of_url(without_default_port(host), target),
                        (None, target) => self.of_target(target),
                    };
                    marks.note(name, number, purge.is_soft);
                }
                What::Prefix(prefix) => {
                    let (host, target) = split(prefix);
                    marks.note_prefix(host.map(without_default_port), target, number, purge.is_soft);
                }
            }
        }
        self.number.store(number, Ordering::SeqCst);
        while_still();
    }

    /// Keeps purges waiting.
    pub fn still(&self) -> Still<'_> {
        Still(self.marks.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What has become of a stored response. Cheap if nothing was purged since this was asked last.
    pub fn of(&self, entry: &Entry) -> Purged {
        let number = self.number.load(Ordering::SeqCst);
        if entry.checked.load(Ordering::Relaxed) == number {
            return Purged::No;
        }
        let still = self.still();
        // A purge that waits for the lock has not counted yet.
        let number = self.number.load(Ordering::SeqCst);
        let purged = still.of(entry);
        if purged == Purged::No {
            entry.checked.store(number, Ordering::Relaxed);
        }
        purged
    }
}

impl Still<'_> {
    /// What has become of a response.
    pub fn of(&self, entry: &Entry) -> Purged {
        let (marks, since) = (&self.0, entry.began.0);
        let mut worst = marks.all.purges(since);
        for name in &entry.names {
            if let Some(mark) = marks.names.get(name) {
                worst = worst.max(mark.purges(since));
            }
        }
        for (host, prefix, mark) in &marks.prefixes {
            let is_host = host.as_ref().is_none_or(|host| host.eq_ignore_ascii_case(&entry.place.host));
            if is_host && entry.place.target.starts_with(prefix.as_str()) {
                worst = worst.max(mark.purges(since));
            }
        }
        worst
    }
}

impl Mark {
    fn set(&mut self, number: u64, is_soft: bool) {
        if is_soft {
            self.soft = number;
        } else {
            self.hard = number;
        }
    }

    fn last(self) -> u64 {
        self.hard.max(self.soft)
    }

    fn purges(self, since: u64) -> Purged {
        match () {
            () if self.hard > since => Purged::Gone,
            () if self.soft > since => Purged::Softly,
            () => Purged::No,
        }
    }
}

impl Marks {
    fn note(&mut self, name: u64, number: u64, is_soft: bool) {
        self.names.entry(name).or_default().set(number, is_soft);
        if self.names.len() > MOST_NAMES {
            let mut numbers: Vec<u64> = self.names.values().map(|mark| mark.last()).collect();
            let (_, middle, _) = numbers.select_nth_unstable(MOST_NAMES / 2);
            let middle = *middle;
            self.names.retain(|_, mark| mark.last() > middle);
            self.all.hard = self.all.hard.max(middle);
        }
    }

    fn note_prefix(&mut self, host: Option<&str>, target: &str, number: u64, is_soft: bool) {
        if let Some((.., mark)) =
            self.prefixes.iter_mut().find(|(known, prefix, _)| known.as_deref() == host && prefix == target)
        {
            return mark.set(number, is_soft);
        }
        let mut mark = Mark::default();
        mark.set(number, is_soft);
        self.prefixes.push((host.map(str::to_owned), target.to_owned(), mark));
        if self.prefixes.len() > MOST_PREFIXES {
            self.prefixes.sort_by_key(|(.., mark)| mark.last());
            let oldest = self.prefixes.drain(..MOST_PREFIXES / 2).map(|(.., mark)| mark.last()).max();
            self.all.hard = self.all.hard.max(oldest.unwrap_or(0));
        }
    }
}

/// Whichever scheme is meant: a page goes by both.
fn without_default_port(host: &str) -> &str {
    host.strip_suffix(":443").or_else(|| host.strip_suffix(":80")).unwrap_or(host)
}

/// Host and target of a URL; without scheme and host it is of every host.
fn split(url: &str) -> (Option<&str>, &str) {
    let rest = match url.find("://") {
        Some(at) if !url.starts_with('/') => &url[at + 3..],
        _ => match url.strip_prefix("//") {
            Some(rest) => rest,
            None => return (None, url),
        },
    };
    let end = rest.find('/').unwrap_or(rest.len());
    let (host, target) = rest.split_at(end);
    (Some(host), if target.is_empty() { "/" } else { target })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stored::entry::tests::entry;

    fn of(purges: &Purges, began: Since, tags: &[&str]) -> Entry {
        let tags: Vec<String> = tags.iter().map(|tag| (*tag).to_owned()).collect();
        let mut entry = entry();
        entry.names = purges.names(&entry.place, &tags);
        entry.began = began;
        entry
    }

    fn purge(purges: &Purges, what: What, is_soft: bool) {
        purges.purge(&Purge { whats: vec![what], is_soft }, || ());
    }

    #[test]
    fn what_began_before_a_purge_is_gone() {
        let purges = Purges::default();
        let (before, other) = (of(&purges, purges.now(), &["a", "b"]), of(&purges, purges.now(), &["c"]));
        assert_eq!(purges.of(&before), Purged::No);
        purge(&purges, What::Tag("b".into()), false);
        let after = of(&purges, purges.now(), &["a", "b"]);
        assert_eq!([&before, &other, &after].map(|entry| purges.of(entry)), [Purged::Gone, Purged::No, Purged::No]);
        purge(&purges, What::All, true);
        assert_eq!(
            [&before, &other, &after].map(|entry| purges.of(entry)),
            [Purged::Gone, Purged::Softly, Purged::Softly]
        );
    }

    #[test]
    fn urls_and_prefixes_are_of_all_hosts_or_of_one() {
        let purges = Purges::default();
        for (what, meant) in [
            (What::Url("/a/b?c".into()), Purged::Gone),
            (What::Url("/a/b".into()), Purged::No),
            (What::Url("https://A.example/a/b?c".into()), Purged::Gone),
            (What::Url("https://b.example/a/b?c".into()), Purged::No),
            (What::Prefix("/a/".into()), Purged::Gone),
            (What::Prefix("/b".into()), Purged::No),
            (What::Prefix("//a.example".into()), Purged::Gone),
            (What::Prefix("http://a.example/a".into()), Purged::Gone),
            (What::Prefix("http://b.example/a".into()), Purged::No),
        ] {
            let one = of(&purges, purges.now(), &[]);
            purge(&purges, what.clone(), false);
            assert_eq!(purges.of(&one), meant, "{what:?}");
        }
    }

    #[test]
    fn what_is_forgotten_purges_what_is_as_old() {
        let purges = Purges::default();
        let old = of(&purges, purges.now(), &["x"]);
        purge(&purges, What::Tag("y".into()), false);
        for number in 0..MOST_NAMES {
            purge(&purges, What::Tag(number.to_string()), false);
        }
        let new = of(&purges, purges.now(), &["x"]);
        assert_eq!([&old, &new].map(|entry| purges.of(entry)), [Purged::Gone, Purged::No]);
        for number in 0..=MOST_PREFIXES {
            purge(&purges, What::Prefix(format!("/{number}/")), false);
        }
        assert_eq!(purges.of(&new), Purged::Gone);
    }

    #[test]
    fn everything_is_as_fast_as_one_thing() {
        let purges = Purges::default();
        let all: Vec<Entry> = (0..1000).map(|_| of(&purges, purges.now(), &["a"])).collect();
        purge(&purges, What::Tag("a".into()), false);
        assert!(purges.write().names.len() == 1 && all.iter().all(|entry| purges.of(entry) == Purged::Gone));
    }
}
