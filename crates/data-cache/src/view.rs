//! A segment as a process sees it: mapped twice, once for reading, at an address that is the same in all processes, and once for writing.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use ipc::sys::{Errno, syscall};
use siphasher::sip::SipHasher13;

use crate::layout::{ABANDONED, Entry, Geometry, Header, IDENTITY, LAYOUT, Lease, MAGIC, Reader, Region, WAYS};

#[cfg(target_arch = "x86_64")]
mod nr {
    pub const MMAP: usize = 9;
    pub const MUNMAP: usize = 11;
    pub const MADVISE: usize = 28;
    pub const GETRANDOM: usize = 318;
    pub const FSTAT: usize = 5;
    pub const FCNTL: usize = 72;
}
#[cfg(target_arch = "aarch64")]
mod nr {
    pub const MMAP: usize = 222;
    pub const MUNMAP: usize = 215;
    pub const MADVISE: usize = 233;
    pub const GETRANDOM: usize = 278;
    pub const FSTAT: usize = 80;
    pub const FCNTL: usize = 25;
}

const READ: usize = 1;
const READ_WRITE: usize = 3;
const SHARED: usize = 1;
const FIXED_NOREPLACE: usize = 0x10_0000;
const MADV_REMOVE: usize = 9;
const F_GET_SEALS: usize = 1034;
const SEAL_SIZE: usize = 0x2 | 0x4; // SHRINK, GROW
const EINVAL: Errno = Errno(22);

/// Why a segment cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Unusable {
    /// Its size is none that a segment has, or is not sealed.
    Size = 1,
    /// Something else is mapped there.
    AddressTaken = 2,
    /// It was made by another build of PHP, or of Reprise.
    Foreign = 3,
    /// A system call failed.
    System = 4,
}

/// Both mappings.
#[derive(Clone, Copy)]
pub struct View {
    reads: *const u8,
    writes: *mut u8,
    /// Where everything lies.
    pub geometry: Geometry,
}

// SAFETY: what is reached by a view is an atomic, or lies in an entry, whose rules are those for processes: threads are bound by the same.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

fn map(descriptor: i32, at: u64, size: u64, protection: usize) -> Result<*mut u8, Unusable> {
    // SAFETY: a new mapping, which replaces none.
    let made = unsafe {
        syscall(nr::MMAP, [at as usize, size as usize, protection, SHARED | FIXED_NOREPLACE, descriptor as usize, 0])
    };
    match made {
        Ok(made) if made as u64 == at => Ok(made as *mut u8),
        Ok(made) => {
            // A kernel that does not know the flag.
            // SAFETY: made above, and used by nobody.
            let _ = unsafe { syscall(nr::MUNMAP, [made, size as usize, 0, 0, 0, 0]) };
            Err(Unusable::AddressTaken)
        }
        Err(Errno(17)) => Err(Unusable::AddressTaken),
        Err(_) => Err(Unusable::System),
    }
}

fn is_sealed(descriptor: i32, size: u64) -> Result<bool, Errno> {
    let mut status = [0u64; 18];
    // SAFETY: a buffer that is larger than the kernel's `struct stat`, whose size field is the seventh word on both architectures.
    unsafe {
        syscall(nr::FSTAT, [descriptor as usize, status.as_mut_ptr() as usize, 0, 0, 0, 0])?;
        let seals = syscall(nr::FCNTL, [descriptor as usize, F_GET_SEALS, 0, 0, 0, 0])?;
        Ok(status[6] == size && seals & SEAL_SIZE == SEAL_SIZE)
    }
}

fn random() -> Result<u64, Unusable> {
    let mut bytes = [0u8; 8];
    // SAFETY: eight bytes of a local.
    match unsafe { syscall(nr::GETRANDOM, [bytes.as_mut_ptr() as usize, 8, 0, 0, 0, 0]) } {
        Ok(8) => Ok(u64::from_ne_bytes(bytes)),
        _ => Err(Unusable::System),
    }
}

impl View {
    /// Maps the memory file `descriptor` of `size` bytes at `address`, and behind that for writing. Makes a segment of it if it is fresh.
    ///
    /// # Errors
    /// [`Unusable`]; nothing is mapped then.
    pub fn attach(descriptor: i32, address: u64, size: u64, identity: &[u8]) -> Result<View, Unusable> {
        View::map_both(descriptor, address, size, |view| view.make_or_check(address, identity))
    }

    /// The same for a process that reads no values, so that it need not know which PHP they are of. [`Unusable::Foreign`] also means that no
    /// prototype has attached yet.
    ///
    /// # Errors
    /// [`Unusable`]; nothing is mapped then.
    pub fn join(descriptor: i32, address: u64, size: u64) -> Result<View, Unusable> {
        View::map_both(descriptor, address, size, |view| view.check(address))
    }

    fn map_both(
        descriptor: i32,
        address: u64,
        size: u64,
        check: impl FnOnce(&View) -> Result<(), Unusable>,
    ) -> Result<View, Unusable> {
        let geometry = Geometry::of(size).filter(|geometry| geometry.size == size).ok_or(Unusable::Size)?;
        match is_sealed(descriptor, size) {
            Ok(true) => {}
            Ok(false) | Err(EINVAL) => return Err(Unusable::Size),
            Err(_) => return Err(Unusable::System),
        }
        let reads = map(descriptor, address, size, READ)?;
        let writes = match map(descriptor, address + size, size, READ_WRITE) {
            Ok(writes) => writes,
            Err(why) => {
                View { reads, writes: core::ptr::null_mut(), geometry }.unmap();
                return Err(why);
            }
        };
        let view = View { reads, writes, geometry };
        let made = check(&view);
        if made.is_err() {
            view.unmap();
        }
        made.map(|()| view)
    }

    fn unmap(&self) {
        let size = self.geometry.size as usize;
        // SAFETY: both were made by `attach`, and nobody has a reference into them yet.
        unsafe {
            let _ = syscall(nr::MUNMAP, [self.reads as usize, size, 0, 0, 0, 0]);
            if !self.writes.is_null() {
                let _ = syscall(nr::MUNMAP, [self.writes as usize, size, 0, 0, 0, 0]);
            }
        }
    }

    fn check(&self, address: u64) -> Result<(), Unusable> {
        let header = self.header();
        let is_it = header.magic.load(Ordering::Acquire) == MAGIC
            && header.layout.load(Ordering::Relaxed) == u64::from(LAYOUT)
            && header.size.load(Ordering::Relaxed) == self.geometry.size
            && header.address.load(Ordering::Relaxed) == address;
        if is_it { Ok(()) } else { Err(Unusable::Foreign) }
    }

    /// One process at a time comes here: the supervisor starts one prototype of an application after the other.
    fn make_or_check(&self, address: u64, identity: &[u8]) -> Result<(), Unusable> {
        let mut words = [0u64; IDENTITY / 8];
        for (place, &byte) in identity.iter().take(IDENTITY).enumerate() {
            words[place / 8] |= u64::from(byte) << (place % 8 * 8);
        }
        let header = self.header();
        let magic = header.magic.load(Ordering::Acquire);
        if magic == ABANDONED {
            return Err(Unusable::Foreign);
        }
        if magic == MAGIC {
            let is_same = header.identity.iter().zip(words).all(|(is, wanted)| is.load(Ordering::Relaxed) == wanted);
            if !is_same || self.check(address).is_err() {
                header.magic.store(ABANDONED, Ordering::Release);
                return Err(Unusable::Foreign);
            }
            return Ok(());
        }
        header.layout.store(u64::from(LAYOUT), Ordering::Relaxed);
        header.size.store(self.geometry.size, Ordering::Relaxed);
        header.address.store(address, Ordering::Relaxed);
        for (word, is) in words.iter().zip(&header.identity) {
            is.store(*word, Ordering::Relaxed);
        }
        for word in &header.secret {
            word.store(random()?, Ordering::Relaxed);
        }
        header.epoch.store(1, Ordering::Relaxed);
        for number in 0..self.geometry.regions {
            let region = self.region(number);
            region.birth.store(1, Ordering::Relaxed);
            region.span.store(1, Ordering::Relaxed);
        }
        header.magic.store(MAGIC, Ordering::Release);
        Ok(())
    }

    fn at<T>(&self, offset: u64) -> &'static T {
        assert!(offset + size_of::<T>() as u64 <= self.geometry.size && offset as usize % align_of::<T>() == 0);
        // SAFETY: inside of the writable mapping, which stays as long as the process; every T of this crate that is read through this
        // consists of atomics, or is not written while others can reach it.
        unsafe { &*self.writes.add(offset as usize).cast::<T>() }
    }

    /// The header.
    pub fn header(&self) -> &'static Header {
        self.at(0)
    }

    /// A reader's place.
    pub fn reader(&self, number: u32) -> &'static Reader {
        assert!(number < self.geometry.reader_count);
        self.at(self.geometry.readers + u64::from(number) * size_of::<Reader>() as u64)
    }

    /// A lease.
    pub fn lease(&self, number: u32) -> &'static Lease {
        assert!(number < self.geometry.lease_count);
        self.at(self.geometry.leases + u64::from(number) * size_of::<Lease>() as u64)
    }

    /// A region's entry in the table.
    pub fn region(&self, number: u32) -> &'static Region {
        assert!(number < self.geometry.regions);
        self.at(self.geometry.table + u64::from(number) * size_of::<Region>() as u64)
    }

    /// Where a region begins.
    pub fn region_at(&self, number: u32) -> u64 {
        u64::from(self.geometry.first + number) * self.geometry.chunk
    }

    /// The region of an entry.
    pub fn region_of(&self, offset: u64) -> u32 {
        (offset / self.geometry.chunk) as u32 - self.geometry.first
    }

    /// The counter of a tag.
    pub fn tag(&self, counter: u64) -> &'static AtomicU64 {
        self.at(self.geometry.tags + counter % u64::from(self.geometry.tag_count) * 8)
    }

    /// The counter of what was done to keys with this hash.
    pub fn key(&self, hash: u64) -> &'static AtomicU32 {
        self.at(self.geometry.keys + hash % u64::from(self.geometry.key_count) * 4)
    }

    /// Where a slot of the index lies.
    pub fn slot_at(&self, number: u64) -> u64 {
        self.geometry.index + number * 8
    }

    /// A slot of the index, for those who change it.
    pub fn slot(&self, number: u64) -> &'static AtomicU64 {
        self.at(self.slot_at(number))
    }

    /// The word with a slot's bit that says whether its entry was used, and the bit.
    pub fn hot(&self, slot: u64) -> (&'static AtomicU32, u32) {
        (self.at(self.geometry.hot + slot / 32 * 4), 1 << (slot % 32))
    }

    /// The slots that an entry with this hash may be in.
    pub fn slots(&self, hash: u64) -> impl Iterator<Item = u64> + use<> {
        let bucket = hash % u64::from(self.geometry.buckets);
        (0..2).flat_map(move |other| (0..WAYS as u64).map(move |way| (bucket ^ other) * WAYS as u64 + way))
    }

    /// How many slots the index has.
    pub fn slot_count(&self) -> u64 {
        u64::from(self.geometry.buckets) * WAYS as u64
    }

    /// The hash of a key.
    pub fn hash(&self, key: &[u8]) -> u64 {
        let secret = &self.header().secret;
        // Keyed by a secret, so that a client cannot choose keys that share a bucket. Never 0.
        SipHasher13::new_with_keys(secret[0].load(Ordering::Relaxed), secret[1].load(Ordering::Relaxed))
            .hash(key)
            .max(1)
    }

    /// A byte of the mapping for reading.
    pub fn reading(&self, offset: u64) -> *const u8 {
        assert!(offset < self.geometry.size);
        // SAFETY: inside.
        unsafe { self.reads.add(offset as usize) }
    }

    /// The same for writing.
    pub fn writing(&self, offset: u64) -> *mut u8 {
        assert!(offset < self.geometry.size);
        // SAFETY: inside.
        unsafe { self.writes.add(offset as usize) }
    }

    /// An entry, as long as nobody may use its memory again: see [`crate::process::Process`].
    pub fn entry(&self, offset: u64) -> &'static Entry {
        assert!(offset as usize % align_of::<Entry>() == 0 && offset + size_of::<Entry>() as u64 <= self.geometry.size);
        // SAFETY: inside of the mapping. What lies there was written as an entry, or is one that was given up: any bytes are one.
        unsafe { &*self.reading(offset).cast::<Entry>() }
    }

    /// The bytes of an entry's key; empty if its numbers are none that an entry has.
    pub fn key_of(&self, offset: u64, entry: &Entry) -> &'static [u8] {
        let (from, size) = (offset + u64::from(entry.key_at), u64::from(entry.key_size));
        if from + size > self.geometry.size || size == 0 {
            return &[];
        }
        // SAFETY: inside; not written while the entry can be found.
        unsafe { core::slice::from_raw_parts(self.reading(from), size as usize) }
    }

    /// Gives the pages of a region back to the kernel.
    pub fn punch(&self, region: u32) {
        let at = self.writing(self.region_at(region));
        // SAFETY: the region is free: nobody reads or writes it.
        let _ = unsafe { syscall(nr::MADVISE, [at as usize, self.geometry.chunk as usize, MADV_REMOVE, 0, 0, 0]) };
    }
}

/// What an index slot says: where an entry lies, and 16 bits of its hash.
pub fn slot_word(hash: u64, offset: u64) -> u64 {
    hash >> 48 << 48 | offset
}

/// Where the entry of a slot lies.
pub fn slot_offset(word: u64) -> u64 {
    word & ((1 << 48) - 1)
}
