//! What a segment is for: finding, storing and removing values.

use core::sync::atomic::{AtomicI64, Ordering};

use crate::layout::{Counter, Entry, LONGEST_KEY, MOST_TAGS, Tag};
use crate::points::point;
use crate::process::{Locked, Process};
use crate::regions::whole;
use crate::view::{View, slot_offset, slot_word};

/// Why a value is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Refused {
    /// It is larger than the largest.
    TooLarge = -1,
    /// No memory may be used again yet.
    Full = -2,
    /// This process has no place in the segment.
    NoPlace = -3,
    /// The condition does not hold.
    Condition = -4,
}

/// What has to hold when a value is linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    Any,
    /// There is no good value with the key.
    Absent,
    /// Nothing was done to the key since its counter stood there.
    Untouched(u32),
    /// The value with this version is the one that is there.
    Version(u64),
}

/// What is stored besides the value.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// 1 to [`LONGEST_KEY`] bytes.
    pub key: &'a [u8],
    /// At most [`MOST_TAGS`], with the generations at which the computation began.
    pub tags: &'a [Tag],
    /// The flushes at which it began: [`Process::flushes`].
    pub flush: u64,
    /// Now, in milliseconds.
    pub now: u64,
    /// See [`Entry::soft`].
    pub soft: u64,
    /// See [`Entry::hard`].
    pub hard: u64,
    /// See [`Entry::cost`].
    pub cost: u32,
    /// See [`Entry::kind`].
    pub kind: u32,
    /// A result of a pure function: nothing else leaves for it.
    pub is_memo: bool,
}

/// An entry with a number counts in place if its kind is this.
pub const KIND_NUMBER: u32 = 1;

/// An entry that is found.
#[derive(Clone, Copy)]
pub struct Found {
    /// Its slot.
    pub slot: u64,
    /// Where it lies.
    pub offset: u64,
    /// It, for reading.
    pub entry: &'static Entry,
}

impl View {
    pub(crate) fn tags_of(&self, entry: &Entry, offset: u64) -> &'static [Tag] {
        let from = offset + size_of::<Entry>() as u64;
        let count = u64::from(entry.tags).min(MOST_TAGS as u64);
        if from + count * size_of::<Tag>() as u64 > self.geometry.size {
            return &[];
        }
        // SAFETY: inside of the mapping; not written while the entry can be found.
        unsafe { core::slice::from_raw_parts(self.reading(from).cast::<Tag>(), count as usize) }
    }
}

impl Process {
    /// The entry of a key that is good now, stale ones included.
    pub fn find(&mut self, key: &[u8], now: u64) -> Option<Found> {
        let hash = self.view.hash(key);
        self.begin_reading(now)?;
        self.look(hash, key, now)
    }

    fn look(&mut self, hash: u64, key: &[u8], now: u64) -> Option<Found> {
        let view = self.view;
        for slot in view.slots(hash) {
            let word = view.slot(slot).load(Ordering::Acquire);
            let offset = slot_offset(word);
            if word != slot_word(hash, offset) || offset == 0 {
                continue;
            }
            self.touch(offset, size_of::<Entry>() as u64, false);
            let entry = view.entry(offset);
            if entry.hash != hash {
                continue;
            }
            self.touch(offset, u64::from(entry.size), false);
            if view.key_of(offset, entry) == key {
                if !view.is_good(entry, offset, now) {
                    return None;
                }
                let (hot, bit) = view.hot(slot);
                if hot.load(Ordering::Relaxed) & bit == 0 {
                    hot.fetch_or(bit, Ordering::Relaxed);
                }
                return Some(Found { slot, offset, entry });
            }
        }
        None
    }

    /// A tag as it stands now.
    pub fn tag(&mut self, name: &[u8]) -> Option<Tag> {
        self.reader()?;
        let counter = self.view.hash(name);
        Some(Tag { counter, generation: self.view.tag(counter).load(Ordering::Acquire) })
    }

    /// How often everything was flushed.
    pub fn flushes(&mut self) -> u64 {
        self.reader().map_or(0, |_| self.view.header().flush.load(Ordering::Acquire))
    }

    /// What the counter of a key stands at.
    pub fn touches(&mut self, key: &[u8]) -> u32 {
        let hash = self.view.hash(key);
        self.reader().map_or(0, |_| self.view.key(hash).load(Ordering::Acquire))
    }

    /// Room for an entry, which this process fills at [`Entry::value_at`] and links by [`Process::publish`]; if it does not, the end of its
    /// request gives it up. Its offset.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn reserve(&mut self, terms: &Terms, value_size: u64) -> Result<u64, Refused> {
        assert!((1..=LONGEST_KEY).contains(&terms.key.len()) && terms.tags.len() <= MOST_TAGS);
        let tags_at = size_of::<Entry>() as u64;
        let key_at = tags_at + size_of_val(terms.tags) as u64;
        let value_at = whole(key_at + terms.key.len() as u64 + 1);
        let size = value_at + whole(value_size);
        if value_size > self.view.geometry.size || size > self.view.geometry.largest() {
            return Err(Refused::TooLarge);
        }
        let view = self.view;
        let hash = view.hash(terms.key);
        let mut locked = self.lock().ok_or(Refused::NoPlace)?;
        let offset =
            if terms.is_memo { locked.allocate_memo(size, terms.now) } else { locked.allocate(size, terms.now) };
        let Some(offset) = offset else {
            view.header().refused.fetch_add(1, Ordering::Relaxed);
            return Err(Refused::Full);
        };
        let version = view.header().version.fetch_add(1, Ordering::Relaxed) + 1;
        drop(locked);
        let entry = view.writing(offset).cast::<Entry>();
        // SAFETY: this process alone knows the entry until it is linked, and `size` bytes are there.
        unsafe {
            (&raw mut (*entry).version).write(version);
            (&raw mut (*entry).key_size).write(terms.key.len() as u32);
            (&raw mut (*entry).key_at).write(key_at as u32);
            (&raw mut (*entry).value_at).write(value_at as u32);
            (&raw mut (*entry).stored).write(terms.now);
            (&raw mut (*entry).soft).write(terms.soft);
            (&raw mut (*entry).hard).write(terms.hard);
            (&raw mut (*entry).flush).write(terms.flush);
            (&raw mut (*entry).cost).write(terms.cost);
            (&raw mut (*entry).kind).write(terms.kind);
            (&raw mut (*entry).tags).write(terms.tags.len() as u32);
            let tags = view.writing(offset + tags_at).cast::<Tag>();
            core::ptr::copy_nonoverlapping(terms.tags.as_ptr(), tags, terms.tags.len());
            let key = view.writing(offset + key_at);
            core::ptr::copy_nonoverlapping(terms.key.as_ptr(), key, terms.key.len());
            key.add(terms.key.len()).write(0);
            (&raw mut (*entry).hash).write(hash);
        }
        point();
        Ok(offset)
    }

    /// Links a filled entry, in the place of another with its key. False: the condition does not hold.
    pub fn publish(&mut self, offset: u64, condition: Condition, now: u64) -> bool {
        let view = self.view;
        self.touch(offset, 1, false);
        let entry = view.entry(offset);
        let (hash, key) = (entry.hash, view.key_of(offset, entry));
        let Some(mut locked) = self.lock() else { return false };
        let place = locked.process.place() - 1;
        let old = locked.of_key(hash, key);
        let mut holds = match condition {
            Condition::Any => true,
            Condition::Absent => old.is_none_or(|old| !view.is_good(old.entry, old.offset, now)),
            Condition::Untouched(count) => view.key(hash).load(Ordering::Acquire) == count,
            Condition::Version(version) => {
                old.is_some_and(|old| old.entry.version == version && view.is_good(old.entry, old.offset, now))
            }
        };
        if holds {
            view.key(hash).fetch_add(1, Ordering::AcqRel);
            let slot = match old {
                Some(old) => Some(old.slot),
                None if view.is_memo(offset) => locked.slot_for_memo(hash, now),
                None => Some(locked.slot_for(hash, now)),
            };
            match slot {
                Some(slot) => locked.link(slot, old.map(|old| old.offset), hash, offset),
                None => holds = false,
            }
        }
        view.reader(place).pending.store(0, Ordering::Release);
        drop(locked);
        if holds {
            self.count(Counter::Stores);
        }
        holds
    }

    /// Removes the value of a key, if it is the one with this version, if one is named. Whether there was a good one.
    pub fn delete(&mut self, key: &[u8], version: Option<u64>, now: u64) -> bool {
        let (view, hash) = (self.view, self.view.hash(key));
        let Some(mut locked) = self.lock() else { return false };
        let old = locked.of_key(hash, key);
        if version.is_some() && old.map(|old| old.entry.version) != version {
            return false;
        }
        // Who computes the value now began before this.
        view.key(hash).fetch_add(1, Ordering::AcqRel);
        let Some(old) = old else { return false };
        let was_good = view.is_good(old.entry, old.offset, now);
        locked.unlink(old.slot);
        was_good
    }

    /// Adds to a number that is stored. None: there is none.
    pub fn increment(&mut self, key: &[u8], by: i64, now: u64) -> Option<i64> {
        let (view, hash) = (self.view, self.view.hash(key));
        let mut locked = self.lock()?;
        let old = locked.of_key(hash, key).filter(|old| view.is_good(old.entry, old.offset, now))?;
        if old.entry.kind != KIND_NUMBER {
            return None;
        }
        locked.process.touch(old.offset, size_of::<Entry>() as u64, true);
        // SAFETY: the first word of the value of a linked entry, for writing; others read it as an atomic, too.
        let number = unsafe { &*view.writing(old.offset).cast::<AtomicI64>() };
        view.key(hash).fetch_add(1, Ordering::AcqRel);
        Some(number.fetch_add(by, Ordering::AcqRel).wrapping_add(by))
    }

    /// All values with the tag are gone.
    pub fn invalidate(&mut self, name: &[u8]) -> bool {
        let is_there = self.reader().is_some();
        if is_there {
            self.view.announce();
            self.view.tag(self.view.hash(name)).fetch_add(1, Ordering::AcqRel);
        }
        is_there
    }

    /// All values are gone.
    pub fn flush(&mut self) -> bool {
        let is_there = self.reader().is_some();
        if is_there {
            self.view.announce();
            self.view.header().flush.fetch_add(1, Ordering::AcqRel);
        }
        is_there
    }

    /// The entry of slot `from` or a later one that is good, for who lists them.
    pub fn next(&mut self, from: u64, now: u64) -> Option<Found> {
        self.begin_reading(now)?;
        let view = self.view;
        for slot in from..view.slot_count() {
            let offset = slot_offset(view.slot(slot).load(Ordering::Acquire));
            if offset != 0 {
                self.touch(offset, size_of::<Entry>() as u64, false);
                let entry = view.entry(offset);
                self.touch(offset, u64::from(entry.size), false);
                if view.is_good(entry, offset, now) {
                    return Some(Found { slot, offset, entry });
                }
            }
        }
        None
    }
}

impl Locked<'_> {
    fn of_key(&mut self, hash: u64, key: &[u8]) -> Option<Found> {
        let view = self.view();
        view.slots(hash).find_map(|slot| {
            let word = view.slot(slot).load(Ordering::Relaxed);
            let offset = slot_offset(word);
            if offset == 0 || word != slot_word(hash, offset) {
                return None;
            }
            self.process.touch(offset, size_of::<Entry>() as u64, false);
            let entry = view.entry(offset);
            self.process.touch(offset, u64::from(entry.key_at) + u64::from(entry.key_size), false);
            (entry.hash == hash && view.key_of(offset, entry) == key).then_some(Found { slot, offset, entry })
        })
    }

    /// A slot for a new key: an empty one, else that of an entry which is no longer good, else of one that was not used, else any. Entries
    /// that stay beside one that leaves have to be used again, or are next; where none has to leave, all are as used as they were.
    fn slot_for(&mut self, hash: u64, now: u64) -> u64 {
        let view = self.view();
        let mut best = (u32::MAX, 0);
        for slot in view.slots(hash) {
            let offset = slot_offset(view.slot(slot).load(Ordering::Relaxed));
            let rank = if offset == 0 {
                0
            } else {
                self.process.touch(offset, size_of::<Entry>() as u64, false);
                let (hot, bit) = view.hot(slot);
                let is_hot = hot.load(Ordering::Relaxed) & bit != 0;
                let leaves_first = view.is_memo(offset) || !view.is_good(view.entry(offset), offset, now);
                if leaves_first { 1 } else { 2 + u32::from(is_hot) }
            };
            if rank < best.0 {
                best = (rank, slot);
            }
            if rank == 0 {
                break;
            }
        }
        if best.0 > 1 {
            for slot in view.slots(hash) {
                let (hot, bit) = view.hot(slot);
                hot.fetch_and(!bit, Ordering::Relaxed);
            }
            view.header().evicted.fetch_add(1, Ordering::Relaxed);
        }
        if best.0 > 0 {
            self.unlink(best.1);
        }
        best.1
    }

    /// The same for a result of a pure function: nothing but another such result, or what is no longer good, leaves for it.
    fn slot_for_memo(&mut self, hash: u64, now: u64) -> Option<u64> {
        let view = self.view();
        let mut found = None;
        for slot in view.slots(hash) {
            let offset = slot_offset(view.slot(slot).load(Ordering::Relaxed));
            if offset == 0 {
                return Some(slot);
            }
            self.process.touch(offset, size_of::<Entry>() as u64, false);
            if view.is_memo(offset) || !view.is_good(view.entry(offset), offset, now) {
                found = Some(slot);
            }
        }
        found.inspect(|&slot| self.unlink(slot))
    }

    fn link(&mut self, slot: u64, old: Option<u64>, hash: u64, offset: u64) {
        let view = self.view();
        let region = view.region(view.region_of(offset));
        region.live.fetch_add(view.entry(offset).size, Ordering::Relaxed);
        point();
        view.slot(slot).store(slot_word(hash, offset), Ordering::Release);
        point();
        match old {
            Some(old) => self.note_unlinked(old),
            None => {
                view.header().entries.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
