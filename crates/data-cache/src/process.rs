//! A process that uses a segment: its place among the readers, the epoch of its request, and the lock.
//!
//! Whoever may be killed at any instruction leaves nothing that hurts: what the lock protects is either a single word, or can be made
//! again from the index ([`Process::repair`]); what a process has for itself is named in its place, and is taken back by whoever finds
//! that it is dead ([`Process::sweep`]).

use core::sync::atomic::{Ordering, fence};

use crate::alive::{self, Who};
use crate::layout::{Counter, MOST_CHUNKS, Populate, Reader, Relocate, State};
use crate::points::point;
use crate::view::View;

/// How long a waiter for the lock sleeps until it looks whether the owner lives, in milliseconds.
const LOCK_LOOK: u32 = 20;
const SPINS: u32 = 200;
/// Milliseconds between two looks for the dead by those who need memory.
const BURY_AFTER: u64 = 50;
/// The top bit of the lock: somebody sleeps.
const SLEEPS: u32 = 1 << 31;

/// The state of a process. It is nobody's but its own, and no rewind puts it back.
pub struct Process {
    /// The segment.
    pub view: View,
    /// Its place, plus one; 0: it has none yet.
    place: u32,
    /// Whether its place says an epoch.
    is_reading: bool,
    /// Whether all places were taken: the next request looks again.
    is_without_place: bool,
    /// How many leases it has.
    pub(crate) leases: u32,
    /// Whether the control data is present in its page tables.
    has_control: bool,
    populate: Option<Populate>,
    pub(crate) relocate: Option<Relocate>,
    /// For each chunk the birth of the region whose pages are present: for reading, for writing.
    touched: [[u32; MOST_CHUNKS]; 2],
}

/// Held while the segment is changed.
pub struct Locked<'a> {
    pub(crate) process: &'a mut Process,
}

impl Process {
    /// Of the process that has attached. It has no place until it needs one.
    pub fn new(view: View, relocate: Option<Relocate>) -> Process {
        Process {
            view,
            place: 0,
            is_reading: false,
            is_without_place: false,
            leases: 0,
            has_control: false,
            populate: None,
            relocate,
            touched: [[0; MOST_CHUNKS]; 2],
        }
    }

    /// In a process that was forked: nothing is its parent's. `populate` makes pages present; none if the process ends with its request.
    pub fn begin(&mut self, populate: Option<Populate>) {
        *self = Process { populate, ..Process::new(self.view, self.relocate) };
    }

    /// Its place. None: all are taken, or `/proc` cannot be read.
    pub fn reader(&mut self) -> Option<&'static Reader> {
        if !self.has_control {
            self.has_control = true;
            let size = u64::from(self.view.geometry.first) * self.view.geometry.chunk;
            if let Some(populate) = self.populate {
                populate(self.view.writing(0) as usize, size as usize, true);
            }
        }
        if self.place == 0 {
            if self.is_without_place {
                return None;
            }
            let place = Who::me().and_then(|who| self.claim(who));
            self.is_without_place = place.is_none();
            self.place = place? + 1;
        }
        Some(self.view.reader(self.place - 1))
    }

    /// The number of its place.
    pub(crate) fn place(&self) -> u32 {
        self.place
    }

    fn claim(&mut self, who: Who) -> Option<u32> {
        self.try_claim(who).or_else(|| (0..self.view.geometry.reader_count).find(|&number| self.take_over(number, who)))
    }

    fn try_claim(&self, who: Who) -> Option<u32> {
        for number in 0..self.view.geometry.reader_count {
            let reader = self.view.reader(number);
            if reader.who.load(Ordering::Relaxed) == 0
                && reader.who.compare_exchange(0, who.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            {
                reader.parent.store(alive::parent(), Ordering::Relaxed);
                self.view.header().high.fetch_max(number + 1, Ordering::AcqRel);
                point();
                return Some(number);
            }
        }
        None
    }

    /// The first value of a request is about to be got: from now on what it may have seen stays.
    pub(crate) fn begin_reading(&mut self, now: u64) -> Option<&'static Reader> {
        let reader = self.reader()?;
        if !self.is_reading {
            self.is_reading = true;
            reader.since.store(now, Ordering::Relaxed);
            reader.epoch.store(self.view.header().epoch.load(Ordering::Acquire), Ordering::SeqCst);
            // Either who unlinks sees this epoch, or this process does not see what was unlinked.
            fence(Ordering::SeqCst);
        }
        Some(reader)
    }

    /// The request has ended, and nothing in the memory of this process points into the segment. Takes back its leases.
    pub fn end_request(&mut self) {
        if self.place == 0 {
            self.is_without_place = false;
            return;
        }
        let reader = self.view.reader(self.place - 1);
        self.release_all();
        reader.pending.store(0, Ordering::Release);
        self.end_reading();
    }

    /// Nothing in the memory of this process points into the segment.
    pub fn end_reading(&mut self) {
        if self.is_reading {
            self.is_reading = false;
            self.view.reader(self.place - 1).epoch.store(0, Ordering::Release);
        }
    }

    /// Whether this process has got values that it may still hold.
    pub fn is_reading(&self) -> bool {
        self.is_reading
    }

    /// The process ends.
    pub fn leave(&mut self) {
        if self.place != 0 {
            self.end_request();
            let number = self.place - 1;
            if let Some(mut locked) = self.lock() {
                locked.empty(number);
            }
            // The lock is nobody's by now: whoever waits for it goes by the place of its owner.
            self.view.reader(number).who.store(0, Ordering::Release);
            self.place = 0;
        }
    }

    /// Before a fork: a place for the child, which has what this process has. None: this process has nothing, or there is no place.
    pub fn before_fork(&mut self) -> Option<u32> {
        if !self.is_reading {
            return None;
        }
        let own = self.view.reader(self.place - 1);
        let number = self.claim(Who::reserved(self.place - 1))?;
        let reader = self.view.reader(number);
        reader.parent.store(Who(own.who.load(Ordering::Relaxed)).pid(), Ordering::Relaxed);
        reader.since.store(own.since.load(Ordering::Relaxed), Ordering::Relaxed);
        reader.epoch.store(own.epoch.load(Ordering::Relaxed), Ordering::SeqCst);
        Some(number)
    }

    /// In the parent, after a fork. `child` is 0 if there is none.
    pub fn after_fork(&mut self, place: u32, child: u32) {
        let reader = self.view.reader(place);
        let reserved = Who::reserved(self.place - 1).0;
        match Who::of(child).filter(|_| child != 0) {
            Some(who) => {
                // The child does the same.
                let _ = reader.who.compare_exchange(reserved, who.0, Ordering::AcqRel, Ordering::Relaxed);
            }
            None => {
                reader.epoch.store(0, Ordering::Relaxed);
                let _ = reader.who.compare_exchange(reserved, 0, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
    }

    /// In the child. False: its place is gone, so memory that it holds may be used again, and it must end.
    pub fn in_child(&mut self, place: Option<u32>) -> bool {
        let (parent, is_reading) = (self.place, self.is_reading);
        self.begin(None);
        let Some(number) = place else { return !is_reading };
        let Some(me) = Who::me() else { return false };
        let reader = self.view.reader(number);
        let reserved = Who::reserved(parent - 1).0;
        let _ = reader.who.compare_exchange(reserved, me.0, Ordering::AcqRel, Ordering::Relaxed);
        if reader.who.load(Ordering::Acquire) != me.0 {
            return false;
        }
        (self.place, self.is_reading) = (number + 1, true);
        true
    }

    /// Pages of an entry or of a region, so that using them is no fault that a rewind counts.
    pub(crate) fn touch(&mut self, offset: u64, size: u64, writes: bool) {
        let Some(populate) = self.populate else { return };
        let chunk = self.view.geometry.chunk;
        for number in offset / chunk..(offset + size.max(1)).div_ceil(chunk) {
            let birth = self.view.region(number as u32 - self.view.geometry.first).birth.load(Ordering::Relaxed);
            let known = &mut self.touched[usize::from(writes)][number as usize];
            if *known != birth {
                *known = birth;
                let at = if writes {
                    self.view.writing(number * chunk) as usize
                } else {
                    self.view.reading(number * chunk) as usize
                };
                populate(at, chunk as usize, writes);
            }
        }
    }

    /// Adds one.
    pub fn count(&mut self, what: Counter) {
        if let Some(reader) = self.reader() {
            let counter = &reader.counted[what as usize];
            // Nobody else writes it.
            counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }

    pub(crate) fn readers(&self) -> core::ops::Range<u32> {
        0..self.view.header().high.load(Ordering::Acquire).min(self.view.geometry.reader_count)
    }

    /// Waits for the lock; takes it from an owner that is dead. None: this process has no place.
    pub(crate) fn lock(&mut self) -> Option<Locked<'_>> {
        self.reader()?;
        let (lock, me) = (&self.view.header().lock, self.place);
        for spin in 0.. {
            if lock.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                point();
                return Some(Locked { process: self });
            }
            if spin < SPINS {
                core::hint::spin_loop();
                continue;
            }
            let held = lock.load(Ordering::Relaxed);
            if held == 0
                || (held & SLEEPS == 0
                    && lock.compare_exchange(held, held | SLEEPS, Ordering::Relaxed, Ordering::Relaxed).is_err())
            {
                continue;
            }
            alive::sleep_on(lock, held | SLEEPS, LOCK_LOOK);
            // The owner may have died, and another may have it by now: a place stays its owner's until it was swept, and that needs the lock.
            let owner = held & !SLEEPS;
            let who =
                self.view.reader((owner - 1).min(self.view.geometry.reader_count - 1)).who.load(Ordering::Acquire);
            if lock.load(Ordering::Relaxed) == held | SLEEPS
                && Who(who).is_dead()
                && lock.compare_exchange(held | SLEEPS, me | SLEEPS, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                self.view.header().taken_over.fetch_add(1, Ordering::Relaxed);
                let mut locked = Locked { process: self };
                locked.repair();
                return Some(locked);
            }
        }
        None
    }

    fn is_gone(&self, number: u32) -> Option<Who> {
        let who = Who(self.view.reader(number).who.load(Ordering::Acquire));
        if who.0 == 0 || number + 1 == self.place {
            return None;
        }
        let is_gone = match who.keeper() {
            // The child would have taken it in its first instructions. If it has not, it ends when it finds that.
            Some(keeper) => self.keeper_is_gone(keeper),
            None => who.is_dead() || who.has_left(self.view.header().address.load(Ordering::Relaxed)),
        };
        is_gone.then_some(who)
    }

    fn keeper_is_gone(&self, keeper: u32) -> bool {
        let who = Who(self.view.reader(keeper.min(self.view.geometry.reader_count - 1)).who.load(Ordering::Acquire));
        who.0 == 0 || who.is_dead()
    }

    /// The place of the dead for who has none. He may need it to get the lock, so this is done without. One exchange decides whose it is:
    /// what he then finds there is his to clear, and whoever sweeps meanwhile sees that the dead is not there any more.
    fn take_over(&self, number: u32, who: Who) -> bool {
        let Some(dead) = self.is_gone(number) else { return false };
        let reader = self.view.reader(number);
        let holds = (0..self.view.geometry.lease_count)
            .any(|lease| self.view.lease(lease).owner.load(Ordering::Acquire) == number + 1);
        let has_lock = self.view.header().lock.load(Ordering::Acquire) & !SLEEPS == number + 1;
        if holds || has_lock || reader.who.compare_exchange(dead.0, who.0, Ordering::AcqRel, Ordering::Relaxed).is_err()
        {
            return false;
        }
        point();
        reader.parent.store(alive::parent(), Ordering::Relaxed);
        reader.pending.store(0, Ordering::Relaxed);
        reader.epoch.store(0, Ordering::Release);
        true
    }

    /// Takes back what the dead have. `of`: only places of this process and of its children, for who has reaped it.
    pub fn sweep(&mut self, of: Option<u32>) -> u32 {
        let mut swept = 0;
        for number in self.readers() {
            let reader = self.view.reader(number);
            let who = Who(reader.who.load(Ordering::Acquire));
            if who.0 == 0 || of.is_some_and(|pid| who.pid() != pid && reader.parent.load(Ordering::Relaxed) != pid) {
                continue;
            }
            let Some(who) = self.is_gone(number) else { continue };
            let Some(mut locked) = self.lock() else { return swept };
            swept += u32::from(locked.sweep_place(number, who));
        }
        swept
    }
}

impl Locked<'_> {
    pub(crate) fn view(&self) -> View {
        self.process.view
    }

    /// Takes back what the dead have. Whether there was something. What a look at all readers costs, while others wait for the lock, is
    /// spent seldom: whoever has reaped a process has swept it.
    pub(crate) fn bury(&mut self, now: u64) -> bool {
        let view = self.view();
        let last = view.header().buried.swap(now.max(1), Ordering::Relaxed);
        if last != 0 && now.wrapping_sub(last) < BURY_AFTER {
            view.header().buried.store(last, Ordering::Relaxed);
            return false;
        }
        let mut has_buried = false;
        for number in self.process.readers() {
            let reader = view.reader(number);
            if reader.epoch.load(Ordering::Relaxed) == 0 && reader.pending.load(Ordering::Relaxed) == 0 {
                continue;
            }
            if let Some(dead) = self.process.is_gone(number) {
                has_buried |= self.sweep_place(number, dead);
            }
        }
        has_buried
    }

    /// The place of the dead is nobody's. While it is emptied it is this process', so nobody takes it over. False: somebody has.
    fn sweep_place(&mut self, number: u32, dead: Who) -> bool {
        let view = self.view();
        let (reader, me) = (view.reader(number), view.reader(self.process.place - 1).who.load(Ordering::Relaxed));
        if reader.who.compare_exchange(dead.0, me, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        point();
        self.empty(number);
        reader.who.store(0, Ordering::Release);
        view.header().swept.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// What a place stands for is taken back.
    fn empty(&mut self, number: u32) {
        let view = self.view();
        let (reader, header) = (view.reader(number), view.header());
        self.release_of(number);
        point();
        for (total, own) in header.counted.iter().zip(&reader.counted) {
            total.fetch_add(own.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        }
        reader.pending.store(0, Ordering::Relaxed);
        reader.epoch.store(0, Ordering::Relaxed);
        reader.parent.store(0, Ordering::Relaxed);
        point();
    }

    /// The owner of the lock died. What it was about to change is made anew from the index, whose slots are single words.
    fn repair(&mut self) {
        let view = self.view();
        self.repair_open();
        let mut entries = 0;
        for number in 0..view.geometry.regions {
            view.region(number).live.store(0, Ordering::Relaxed);
        }
        for slot in 0..view.slot_count() {
            let offset = crate::view::slot_offset(view.slot(slot).load(Ordering::Acquire));
            if offset == 0 {
                continue;
            }
            let number = view.region_of(offset);
            let region = view.region(number);
            if State::of(region.state.load(Ordering::Relaxed)) == State::Evicted {
                view.slot(slot).store(0, Ordering::Release);
                continue;
            }
            entries += 1;
            region.live.fetch_add(view.entry(offset).size, Ordering::Relaxed);
        }
        view.header().entries.store(entries, Ordering::Relaxed);
        for number in 0..view.geometry.regions {
            if State::of(view.region(number).state.load(Ordering::Relaxed)) == State::Evicted {
                self.retire(number);
            }
        }
        self.repair_parts();
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        point();
        let lock = &self.process.view.header().lock;
        if lock.swap(0, Ordering::Release) & SLEEPS != 0 {
            alive::wake(lock);
        }
    }
}
