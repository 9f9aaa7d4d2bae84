//! A mapped slab and safe access to its parts.
//!
//! Invariants, kept here: `base` is a live mapping of `geometry.size()` bytes for as long as the `Slab` lives; every
//! index is checked against the geometry read at mapping time, never against shared memory; bytes that another process
//! may change are only copied, never lent out as a slice.

use core::ptr;

use crate::atomics::{AtomicU32, AtomicU64, Ordering, fence};
use crate::bell::{Futex, Marks};
use crate::layout::*;
use crate::queue::Queue;
use crate::ring::Memory;
use crate::sys::{self, Errno, Kernel};

/// One mapped slab. Sharing it between threads is sound: all shared words are atomics, all bytes are copied.
pub struct Slab {
    base: *mut u8,
    geometry: Geometry,
}

// SAFETY: the mapping belongs to the process, not to a thread; see the module's invariants for the accesses.
unsafe impl Send for Slab {}
// SAFETY: as above.
unsafe impl Sync for Slab {}

/// Makes the memory file of a new slab. Returns its descriptor; the size of the file is sealed.
pub fn create(geometry: Geometry) -> Result<i32, Errno> {
    let descriptor = sys::memory_file(geometry.size())?;
    let base = sys::map(descriptor, geometry.size())?;
    // SAFETY: the mapping is at least as large as the header, aligned to a page, and nobody else has it yet.
    unsafe {
        let header = base.cast::<Header>();
        ptr::addr_of_mut!((*header).geometry).write(geometry);
        ptr::addr_of_mut!((*header).magic).write(MAGIC);
        sys::unmap(base, geometry.size());
    }
    Ok(descriptor)
}

impl Slab {
    /// Maps a slab of known geometry. The descriptor may be closed afterwards. EINVAL if the file is not such a slab.
    pub fn map(descriptor: i32, geometry: Geometry) -> Result<Slab, Errno> {
        if !geometry.is_valid() {
            return Err(Errno(22));
        }
        let slab = Slab { base: sys::map(descriptor, geometry.size())?, geometry };
        if slab.header().magic != MAGIC || slab.header().geometry != geometry {
            return Err(Errno(22));
        }
        Ok(slab)
    }

    /// Whether the header is as it was written and the positions of the queue are possible. Workers can write there. If one has
    /// damaged the header, no new worker can map the slab; if one has damaged the queue, no worker is given a request. The queue
    /// moves while this looks at it, so only a result that comes again and again counts.
    pub fn is_intact(&self) -> bool {
        // SAFETY: both lie in the mapping, whose bytes may change at any time: they are read once, and any bytes are a valid value.
        let (magic, geometry) = unsafe {
            let header = self.base.cast::<Header>();
            (ptr::read_volatile(&raw const (*header).magic), ptr::read_volatile(&raw const (*header).geometry))
        };
        let head = self.header().head.0.load(Ordering::SeqCst);
        let tail = self.header().tail.0.load(Ordering::SeqCst);
        let is_queue =
            tail < 1 << 48 && tail.checked_sub(head).is_some_and(|count| count <= self.geometry.queue.into());
        magic == MAGIC && geometry == self.geometry && is_queue
    }

    /// The sizes that the slab was mapped with.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn header(&self) -> &Header {
        // SAFETY: the header lies at the start of the mapping; its only mutable parts are atomics.
        unsafe { &*self.base.cast::<Header>() }
    }

    /// The lane's queue.
    pub fn queue(&self) -> Queue<'_> {
        let header = self.header();
        // SAFETY: the cells lie within the mapping (Geometry::size) and are aligned (queue_at is a multiple of 128).
        let cells = unsafe {
            core::slice::from_raw_parts(
                self.base.add(self.geometry.queue_at()).cast::<AtomicU64>(),
                self.geometry.queue as usize,
            )
        };
        Queue { head: &header.head.0, tail: &header.tail.0, cells }
    }

    /// What the lane is doing. An unknown word reads as closed.
    pub fn phase(&self) -> Phase {
        match self.header().phase.0.load(Ordering::SeqCst) {
            0 => Phase::Open,
            1 => Phase::Draining,
            _ => Phase::Closed,
        }
    }

    /// Changes the phase and wakes every worker.
    pub fn set_phase(&self, phase: Phase) {
        self.header().phase.0.store(phase as u32, Ordering::SeqCst);
        self.wake_all();
    }

    /// Wakes every worker, asleep or not, and those blocked in an exchange: after a change of phase or a death.
    pub fn wake_all(&self) {
        fence(Ordering::SeqCst);
        for slot in (0..self.geometry.slots as usize).filter_map(|number| self.slot(number)) {
            slot.bell.fetch_add(1, Ordering::Release);
            Kernel.wake(&slot.bell);
        }
    }

    /// How many workers are to end.
    pub fn surplus(&self) -> &AtomicU32 {
        &self.header().surplus.0
    }

    /// The door of a front thread.
    pub fn door(&self, number: usize) -> &Door {
        &self.header().doors[number]
    }

    /// Bit per slot: its worker sleeps.
    pub fn sleepers(&self) -> &[AtomicU64] {
        &self.header().sleepers.0
    }

    /// Which exchanges of a front thread have news.
    pub fn marks(&self, door: usize) -> Marks<'_> {
        let words = self.geometry.per_door() / 64;
        Marks { summary: &self.door(door).marked, words: &self.header().ready.0[door * words..(door + 1) * words] }
    }

    /// Ends of workers by reason. Workers write these counters: they may be shown, nothing may rely on them.
    pub fn recycles(&self) -> &[AtomicU64; RECYCLES] {
        &self.header().recycles.0
    }

    /// What workers say of their opcache. These numbers may be shown, nothing may rely on them.
    pub fn opcache(&self) -> &[AtomicU64; OPCACHES] {
        &self.header().opcache.0
    }

    /// Not zero: workers want code to be loaded anew.
    pub fn renewal(&self) -> &AtomicU32 {
        &self.header().renewal.0
    }

    /// The words of the report.
    pub fn report_words(&self) -> &ReportWords {
        &self.header().report.0
    }

    /// What the front tells workers about their application.
    pub fn report(&self) -> Bytes<'_> {
        // SAFETY: the report lies at the end of the mapping (Geometry::size).
        Bytes { base: unsafe { self.base.add(self.geometry.report_at()) }, size: REPORT_SIZE, _slab: self }
    }

    /// How many texts workers have put into their boxes.
    pub fn purges(&self) -> &AtomicU32 {
        &self.header().purges.0
    }

    /// The box of a slot, if there is such a slot: its words and its text.
    pub fn purge_box(&self, slot: usize) -> Option<(&PurgeWords, Bytes<'_>)> {
        if slot >= self.geometry.slots as usize {
            return None;
        }
        // SAFETY: in range, so the box lies within the mapping (Geometry::size), aligned to a page; its words are atomics.
        let base = unsafe { self.base.add(self.geometry.purges_at() + slot * PURGE_BOX) };
        // SAFETY: the words and the text lie within the box, by the assertion in `layout`.
        let (words, text) = unsafe { (&*base.cast::<PurgeWords>(), base.add(PURGE_BOX - PURGE_SIZE)) };
        Some((words, Bytes { base: text, size: PURGE_SIZE, _slab: self }))
    }

    /// Where the slab is mapped: first byte and number of bytes.
    pub fn extent(&self) -> (usize, usize) {
        (self.base as usize, self.geometry.size())
    }

    /// The slot with that number, if there is one.
    pub fn slot(&self, number: usize) -> Option<&Slot> {
        if number >= self.geometry.slots as usize {
            return None;
        }
        // SAFETY: number is in range, so the slot lies within the mapping, aligned to 128; it holds atomics only.
        Some(unsafe { &*self.base.add(self.geometry.slots_at()).cast::<Slot>().add(number) })
    }

    fn exchange(&self, number: u32) -> *mut u8 {
        assert!(number < self.geometry.exchanges);
        // SAFETY: in range, so the result is within the mapping.
        unsafe { self.base.add(self.geometry.exchanges_at() + number as usize * EXCHANGE_SIZE) }
    }

    /// The words of an exchange. Panics if there is no such exchange: the number never comes from shared memory.
    pub fn control(&self, number: u32) -> &Control {
        // SAFETY: an exchange begins with its control words, page-aligned; atomics only.
        unsafe { &*self.exchange(number).cast::<Control>() }
    }

    /// The owner word of an exchange named in a queue entry, which a worker may have forged.
    pub fn owner(&self, number: u32) -> Option<&AtomicU64> {
        (number < self.geometry.exchanges).then(|| &self.control(number).owner.0)
    }

    /// The request head of an exchange.
    pub fn head(&self, number: u32) -> Bytes<'_> {
        self.bytes(number, HEAD_AT, HEAD_SIZE)
    }

    /// The ring of the request's body.
    pub fn body(&self, number: u32) -> Bytes<'_> {
        self.bytes(number, BODY_AT, BODY_RING)
    }

    /// The ring of the response.
    pub fn response(&self, number: u32) -> Bytes<'_> {
        self.bytes(number, RESPONSE_AT, RESPONSE_RING)
    }

    fn bytes(&self, number: u32, at: usize, size: usize) -> Bytes<'_> {
        // SAFETY: at + size ≤ EXCHANGE_SIZE for the three callers above.
        Bytes { base: unsafe { self.exchange(number).add(at) }, size, _slab: self }
    }

    /// The word that the worker of a slot sleeps on.
    pub(crate) fn bell(&self, slot: usize) -> &AtomicU32 {
        &self.slot(slot).expect("a worker's own slot").bell
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: every borrow of the mapping borrows the Slab.
        unsafe { sys::unmap(self.base, self.geometry.size()) }
    }
}

/// Some bytes of a slab that another process may be changing.
pub struct Bytes<'a> {
    base: *mut u8,
    size: usize,
    _slab: &'a Slab,
}

impl Memory for Bytes<'_> {
    fn store(&self, at: usize, source: &[u8]) {
        assert!(source.len() <= self.size && at <= self.size - source.len());
        // SAFETY: in range by the assertion; private memory never overlaps the mapping.
        unsafe { ptr::copy_nonoverlapping(source.as_ptr(), self.base.add(at), source.len()) }
    }

    fn load(&self, at: usize, target: &mut [u8]) {
        assert!(target.len() <= self.size && at <= self.size - target.len());
        // SAFETY: as above. A byte that changes while it is copied has some value; all of them are checked later.
        unsafe { ptr::copy_nonoverlapping(self.base.add(at), target.as_mut_ptr(), target.len()) }
    }

    fn size(&self) -> usize {
        self.size
    }
}

impl Bytes<'_> {
    /// Zeroes the first `used` bytes (all, if that is more than there are).
    pub fn wipe(&self, used: u64) {
        let used = used.min(self.size as u64) as usize;
        // SAFETY: within the range by the line above.
        unsafe { ptr::write_bytes(self.base, 0, used) }
    }
}
