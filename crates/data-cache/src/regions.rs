//! Memory for entries. New ones go to the end of the open region. A region whose entries are all unlinked, or that is chosen to make
//! room, is used again when no reader can hold one of them. So no list of holes has to be kept right, and a death in the middle of a
//! store costs the memory of one entry, until its region's turn comes.
//!
//! Entries that were used since the region was opened are moved to the open region, at most half a region of them: so what many ask
//! for stays, and a scan pushes out only what a scan has brought.

use core::sync::atomic::{Ordering, fence};

use crate::layout::{Entry, State};
use crate::points::point;
use crate::process::Locked;
use crate::view::{View, slot_offset, slot_word};

/// Regions that are passed over at one store because most of them was used: a bound for the time that the lock is held.
const MOST_TURNS: u32 = 32;

/// Bytes of an entry, rounded up.
pub(crate) const fn whole(size: u64) -> u64 {
    size.div_ceil(16) * 16
}

impl View {
    pub(crate) fn state(&self, region: u32) -> State {
        State::of(self.region(region).state.load(Ordering::Relaxed))
    }

    pub(crate) fn set_state(&self, region: u32, state: State) {
        self.region(region).state.store(state as u32, Ordering::Release);
    }

    /// Whether an entry can be found. Checks all but its key.
    pub(crate) fn is_good(&self, entry: &Entry, offset: u64, now: u64) -> bool {
        if entry.flush != self.header().flush.load(Ordering::Acquire) || (entry.hard != 0 && entry.hard <= now) {
            return false;
        }
        if !self.is_fresh(entry.stored, now) {
            return false;
        }
        let tags = self.tags_of(entry, offset);
        tags.iter().all(|tag| self.tag(tag.counter).load(Ordering::Acquire) == tag.generation)
    }

    /// Bytes of linked entries, and bytes that may not be used again yet.
    pub fn used(&self) -> (u64, u64) {
        let (mut live, mut retired) = (0, 0);
        for number in 0..self.geometry.regions {
            let region = self.region(number);
            live += u64::from(region.live.load(Ordering::Relaxed));
            if self.state(number) == State::Retired {
                retired += self.geometry.chunk
                    * u64::from(region.span.load(Ordering::Relaxed).clamp(1, self.geometry.regions));
            }
        }
        (live, retired)
    }

    pub(crate) fn free_regions(&self) -> impl Iterator<Item = u32> {
        (0..self.geometry.regions).filter(|&region| self.state(region) == State::Free)
    }

    /// Whether a free region has pages: its cursor stays where it was until they are given back.
    fn has_pages(&self, region: u32) -> bool {
        self.region(region).cursor.load(Ordering::Relaxed) > 0
    }

    fn linked_slot(&self, entry: &Entry, offset: u64) -> Option<u64> {
        let word = slot_word(entry.hash, offset);
        self.slots(entry.hash).find(|&slot| self.slot(slot).load(Ordering::Relaxed) == word)
    }
}

impl Locked<'_> {
    /// Room for an entry of so many bytes. None: there is no memory that may be used again yet.
    pub(crate) fn allocate(&mut self, size: u64, now: u64) -> Option<u64> {
        let view = self.view();
        let opened = view.header().opened.load(Ordering::Relaxed);
        let offset = self.give(size, now).or_else(|| {
            self.keep_spare(now);
            self.give(size, now)
        })?;
        // Before others leave: it must not be among them.
        view.reader(self.process.place() - 1).pending.store(view.region_of(offset) + 1, Ordering::Release);
        // There are fewer free regions only when one was opened.
        if view.header().opened.load(Ordering::Relaxed) != opened {
            self.keep_spare(now);
        }
        Some(offset)
    }

    fn give(&mut self, size: u64, now: u64) -> Option<u64> {
        let view = self.view();
        if size > view.geometry.chunk {
            return self.give_large(size, now);
        }
        let open = view.header().open.load(Ordering::Relaxed);
        if open > 0 {
            let region = view.region(open - 1);
            let cursor = u64::from(region.cursor.load(Ordering::Relaxed));
            if cursor + size <= view.geometry.chunk {
                return Some(self.take(open - 1, cursor, size));
            }
        }
        let fresh = self.find_free(now)?;
        if open > 0 {
            view.set_state(open - 1, State::Full);
        }
        point();
        self.open(fresh, State::Open);
        point();
        view.header().open.store(fresh + 1, Ordering::Relaxed);
        Some(self.take(fresh, 0, size))
    }

    pub(crate) fn open(&mut self, number: u32, state: State) {
        let view = self.view();
        let region = view.region(number);
        region.cursor.store(0, Ordering::Relaxed);
        region.live.store(0, Ordering::Relaxed);
        region.span.store(1, Ordering::Relaxed);
        region.is_memo.store(0, Ordering::Relaxed);
        region.opened.store(view.header().opened.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        view.set_state(number, state);
    }

    /// The size is written at once: whoever goes through the region needs it.
    pub(crate) fn take(&mut self, number: u32, cursor: u64, size: u64) -> u64 {
        let view = self.view();
        let offset = view.region_at(number) + cursor;
        self.process.touch(offset, size, true);
        let entry = view.writing(offset).cast::<Entry>();
        // SAFETY: inside of a region, from its cursor on: nobody else writes or reads there.
        unsafe {
            (&raw mut (*entry).size).write(size as u32);
            (&raw mut (*entry).hash).write(0);
        }
        point();
        view.region(number).cursor.store((cursor + size).min(u64::from(u32::MAX)) as u32, Ordering::Release);
        offset
    }

    /// One that has pages, if there is one: it costs no faults, and what is written there lies in the processor's cache if it is used soon.
    pub(crate) fn find_free(&mut self, now: u64) -> Option<u32> {
        let view = self.view();
        let with_pages = || view.free_regions().find(|&region| view.has_pages(region));
        with_pages()
            .or_else(|| {
                self.reclaim_seen();
                with_pages()
            })
            .or_else(|| view.free_regions().next())
            .or_else(|| {
                self.reclaim(now);
                view.free_regions().next()
            })
    }

    /// Regions behind one another, for an entry that is larger than one.
    fn give_large(&mut self, size: u64, now: u64) -> Option<u64> {
        let view = self.view();
        let count = size.div_ceil(view.geometry.chunk) as u32;
        self.reclaim(now);
        let places = || (0..=view.geometry.regions.saturating_sub(count)).map(|from| from..from + count);
        let found =
            places().find(|place| place.clone().all(|region| view.state(region) == State::Free)).or_else(|| {
                // The place with the least that is alive.
                let may = |region: u32| match view.state(region) {
                    State::Free | State::Retired => Some(0),
                    State::Full
                        if !self.is_pending(region) && view.region(region).span.load(Ordering::Relaxed) == 1 =>
                    {
                        Some(u64::from(view.region(region).live.load(Ordering::Relaxed)))
                    }
                    _ => None,
                };
                let cost = |place: &core::ops::Range<u32>| place.clone().map(may).sum::<Option<u64>>();
                let best = places().filter_map(|place| Some((cost(&place)?, place))).min_by_key(|(cost, _)| *cost)?.1;
                for region in best.clone() {
                    if view.state(region) == State::Full {
                        self.evict(region, 0, now);
                    }
                }
                self.reclaim(now);
                best.clone().all(|region| view.state(region) == State::Free).then_some(best)
            })?;
        let first = found.start;
        view.region(first).span.store(count, Ordering::Relaxed);
        for part in found.skip(1) {
            view.set_state(part, State::Part);
            point();
        }
        self.open(first, State::Full);
        view.region(first).span.store(count, Ordering::Relaxed);
        for number in 0..u64::from(count) {
            let from = view.region_at(first) + number * view.geometry.chunk;
            self.process.touch(from, 1, true);
        }
        Some(self.take(first, 0, size))
    }

    /// The open regions are those that the header names, and they alone are in that state: somebody died between the two.
    pub(crate) fn repair_open(&mut self) {
        let (view, header) = (self.view(), self.view().header());
        for (word, is_memo) in [(&header.open, false), (&header.open_memo, true)] {
            let open = word.load(Ordering::Relaxed);
            let is_right = |region: u32| view.state(region) == State::Open && view.is_of_memo(region) == is_memo;
            if open > view.geometry.regions || (open > 0 && !is_right(open - 1)) {
                word.store(0, Ordering::Relaxed);
            }
        }
        let open = [&header.open, &header.open_memo].map(|word| word.load(Ordering::Relaxed));
        for number in (0..view.geometry.regions).filter(|number| !open.contains(&(number + 1))) {
            if view.state(number) == State::Open {
                view.set_state(number, State::Full);
            }
        }
    }

    /// Parts whose first region does not say that it has them: somebody died while he took them, or gave them back.
    pub(crate) fn repair_parts(&mut self) {
        let view = self.view();
        let mut until = 0;
        for number in 0..view.geometry.regions {
            match view.state(number) {
                State::Part if number >= until => view.set_state(number, State::Free),
                State::Part => {}
                State::Free => view.region(number).span.store(1, Ordering::Relaxed),
                _ => until = number + view.region(number).span.load(Ordering::Relaxed).clamp(1, view.geometry.regions),
            }
        }
    }

    /// Nothing in it is linked any more.
    pub(crate) fn retire(&mut self, number: u32) {
        let (view, region) = (self.view(), self.view().region(number));
        fence(Ordering::SeqCst);
        region.retired.store(view.header().epoch.fetch_add(1, Ordering::SeqCst) + 1, Ordering::Relaxed);
        region.live.store(0, Ordering::Relaxed);
        point();
        view.set_state(number, State::Retired);
    }

    /// Regions that no reader can hold anything of are free. A reader that is dead holds nothing.
    pub(crate) fn reclaim(&mut self, now: u64) {
        self.reclaim_seen();
        let view = self.view();
        if (0..view.geometry.regions).any(|region| view.state(region) == State::Retired) && self.bury(now) {
            self.reclaim_seen();
        }
    }

    fn reclaim_seen(&mut self) {
        let view = self.view();
        fence(Ordering::SeqCst);
        let oldest = self.process.readers().map(|reader| view.reader(reader).epoch.load(Ordering::SeqCst));
        let oldest = oldest.filter(|&epoch| epoch != 0).min().unwrap_or(u64::MAX);
        let mut spare = view.free_regions().filter(|&region| view.has_pages(region)).count() as u32;
        for number in 0..view.geometry.regions {
            let region = view.region(number);
            if view.state(number) != State::Retired || region.retired.load(Ordering::Relaxed) > oldest {
                continue;
            }
            let span = region.span.swap(1, Ordering::Relaxed).clamp(1, view.geometry.regions - number);
            for part in number..number + span {
                let (birth, cursor) = (&view.region(part).birth, &view.region(part).cursor);
                // More than is kept in store is given back.
                if spare > 2 * view.geometry.spare() {
                    view.punch(part);
                    birth.store(birth.load(Ordering::Relaxed).wrapping_add(1).max(1), Ordering::Relaxed);
                    cursor.store(0, Ordering::Relaxed);
                } else {
                    // Parts of a large entry have none.
                    cursor.fetch_max(1, Ordering::Relaxed);
                    spare += 1;
                }
                point();
                view.set_state(part, State::Free);
            }
        }
    }

    pub(crate) fn is_pending(&self, region: u32) -> bool {
        let view = self.view();
        self.process.readers().any(|reader| view.reader(reader).pending.load(Ordering::Relaxed) == region + 1)
    }

    /// Entries leave until there are some regions that are free, or will be.
    fn keep_spare(&mut self, now: u64) {
        let view = self.view();
        let mut turns = 0;
        for _ in 0..view.geometry.spare() + MOST_TURNS {
            let there =
                (0..view.geometry.regions).filter(|&region| matches!(view.state(region), State::Free | State::Retired));
            if there.count() as u32 >= view.geometry.spare() {
                return;
            }
            let Some(victim) = self.choose() else { return };
            if turns < MOST_TURNS && !view.is_of_memo(victim) && self.gets_another_turn(victim, now) {
                turns += 1;
                continue;
            }
            self.evict(victim, view.geometry.chunk / 2, now);
        }
    }

    /// The region that costs least: one with results of pure functions, else one with more garbage than entries, else the oldest.
    fn choose(&self) -> Option<u32> {
        let view = self.view();
        let may = |&region: &u32| view.state(region) == State::Full && !self.is_pending(region);
        let opened = |region: &u32| view.region(*region).opened.load(Ordering::Relaxed);
        let of_memo = view.memo_regions().filter(may).min_by_key(opened);
        if of_memo.is_some() {
            return of_memo;
        }
        let live = |region: u32| u64::from(view.region(region).live.load(Ordering::Relaxed));
        let emptiest = (0..view.geometry.regions).filter(may).min_by_key(|&region| live(region))?;
        if live(emptiest) < view.geometry.chunk / 2 {
            return Some(emptiest);
        }
        (0..view.geometry.regions).filter(may).min_by_key(opened)
    }

    /// Unlinks all entries of a region. Those that were used move, as long as there is room in `budget` bytes.
    pub(crate) fn evict(&mut self, number: u32, mut budget: u64, now: u64) {
        let view = self.view();
        let (from, end) = (view.region_at(number), u64::from(view.region(number).cursor.load(Ordering::Relaxed)));
        view.set_state(number, State::Evicted);
        point();
        let mut at = 0;
        let mut is_walked = true;
        while at + size_of::<Entry>() as u64 <= end {
            let offset = from + at;
            self.process.touch(offset, 1, false);
            let entry = view.entry(offset);
            let size = u64::from(entry.size);
            if size < size_of::<Entry>() as u64 || size % 16 != 0 {
                is_walked = false;
                break;
            }
            if let Some(slot) = view.linked_slot(entry, offset) {
                let (hot, bit) = view.hot(slot);
                let was_used = hot.fetch_and(!bit, Ordering::Relaxed) & bit != 0;
                let stays = was_used && size <= budget && !view.is_of_memo(number) && view.is_good(entry, offset, now);
                if !(stays && self.move_entry(slot, offset, size, now)) {
                    view.slot(slot).store(0, Ordering::Release);
                    view.header().evicted.fetch_add(1, Ordering::Relaxed);
                    view.header().entries.fetch_sub(1, Ordering::Relaxed);
                } else {
                    budget -= size;
                }
                point();
            }
            at += size;
        }
        // No death leaves such a region; another's wild write may.
        if !is_walked {
            self.unlink_all(number);
        }
        self.retire(number);
    }

    /// A region most of which was used gets another turn as it is: moving that would cost more than it brings.
    fn gets_another_turn(&mut self, number: u32, now: u64) -> bool {
        let view = self.view();
        let (from, end) = (view.region_at(number), u64::from(view.region(number).cursor.load(Ordering::Relaxed)));
        let (mut at, mut used) = (0, 0);
        self.process.touch(from, 1, false);
        // Twice: to count, and to forget.
        for forgets in [false, true] {
            at = if forgets { 0 } else { at };
            while at + size_of::<Entry>() as u64 <= end {
                let entry = view.entry(from + at);
                let size = u64::from(entry.size);
                if size < size_of::<Entry>() as u64 || size % 16 != 0 {
                    return false;
                }
                if let Some(slot) = view.linked_slot(entry, from + at) {
                    let (hot, bit) = view.hot(slot);
                    if forgets {
                        hot.fetch_and(!bit, Ordering::Relaxed);
                    } else if hot.load(Ordering::Relaxed) & bit != 0 && view.is_good(entry, from + at, now) {
                        used += size;
                    }
                }
                at += size;
            }
            if used <= view.geometry.chunk / 2 {
                return false;
            }
        }
        view.region(number).opened.store(view.header().opened.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        true
    }

    fn unlink_all(&mut self, number: u32) {
        let view = self.view();
        for slot in 0..view.slot_count() {
            let offset = slot_offset(view.slot(slot).load(Ordering::Relaxed));
            if offset != 0 && view.region_of(offset) == number {
                view.slot(slot).store(0, Ordering::Release);
                view.header().entries.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// To the open region, if there is room without another eviction.
    fn move_entry(&mut self, slot: u64, offset: u64, size: u64, now: u64) -> bool {
        let view = self.view();
        let Some(relocate) = self.process.relocate else { return false };
        let Some(to) = self.give(size, now) else { return false };
        self.process.touch(offset, size, false);
        // SAFETY: both lie in regions with `size` bytes; the target was taken just now, and is linked to nothing.
        unsafe { core::ptr::copy_nonoverlapping(view.reading(offset), view.writing(to), size as usize) };
        let alias = view.writing(0) as isize - view.reading(0) as isize;
        relocate(view.writing(to), to as isize - offset as isize, alias);
        point();
        view.region(view.region_of(to)).live.fetch_add(size as u32, Ordering::Relaxed);
        view.slot(slot).store(slot_word(view.entry(to).hash, to), Ordering::Release);
        true
    }

    /// Unlinks the entry of a slot.
    pub(crate) fn unlink(&mut self, slot: u64) {
        let view = self.view();
        let offset = slot_offset(view.slot(slot).load(Ordering::Relaxed));
        if offset == 0 {
            return;
        }
        view.slot(slot).store(0, Ordering::Release);
        point();
        let (hot, bit) = view.hot(slot);
        hot.fetch_and(!bit, Ordering::Relaxed);
        self.note_unlinked(offset);
        view.header().entries.fetch_sub(1, Ordering::Relaxed);
    }

    /// The memory of an entry that no slot leads to any more.
    pub(crate) fn note_unlinked(&mut self, offset: u64) {
        let view = self.view();
        let number = view.region_of(offset);
        let region = view.region(number);
        let size = view.entry(offset).size;
        let live = region.live.load(Ordering::Relaxed).saturating_sub(size);
        region.live.store(live, Ordering::Relaxed);
        if live == 0 && view.state(number) == State::Full && !self.is_pending(number) {
            self.retire(number);
        }
    }
}
