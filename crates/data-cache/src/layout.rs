//! Where everything lies in a segment. The size decides all of it.
//!
//! ```text
//! header | readers | leases | tags | keys | index | hot | regions' table │ region │ region │ …
//!                                                                        └ chunks of the same size
//! ```

use core::sync::atomic::{AtomicU32, AtomicU64};

/// The first eight bytes of a segment that is in use.
pub const MAGIC: u64 = 0x5245_5052_4953_4531;
/// The same of one that another build has found. Values in it may be older than what was removed since, so nobody begins to use it again.
pub const ABANDONED: u64 = MAGIC ^ 1;
/// Changes with everything in this file, and with how values are laid out.
pub const LAYOUT: u32 = 5;
/// The smallest segment, in bytes.
pub const SMALLEST: u64 = 1 << 20;
/// The largest.
pub const LARGEST: u64 = 4 << 30;
/// Chunks of a segment: control data and regions.
pub const MOST_CHUNKS: usize = 257;
/// Slots in a bucket of the index. A key has two buckets.
pub const WAYS: usize = 8;
/// Bytes of what identifies PHP's build.
pub const IDENTITY: usize = 64;
/// The longest key, in bytes.
pub const LONGEST_KEY: usize = 1024;
/// Most tags of an entry.
pub const MOST_TAGS: usize = 64;

/// At the start.
#[repr(C)]
pub struct Header {
    /// [`MAGIC`], written last when a segment is made.
    pub magic: AtomicU64,
    /// [`LAYOUT`].
    pub layout: AtomicU64,
    /// Bytes of the segment.
    pub size: AtomicU64,
    /// Where it is mapped for reading, in all processes.
    pub address: AtomicU64,
    /// Secret of the hash, so that no client chooses keys that share a bucket.
    pub secret: [AtomicU64; 2],
    /// Build of PHP, as bytes.
    pub identity: [AtomicU64; IDENTITY / 8],
    /// Number of the reader that changes the segment, plus one; the top bit: somebody sleeps until it has done.
    pub lock: AtomicU32,
    /// Readers with a larger number have never been there.
    pub high: AtomicU32,
    /// The region that takes new entries, plus one.
    pub open: AtomicU32,
    /// The same for results of pure functions ([`Region::is_memo`]).
    pub open_memo: AtomicU32,
    /// Moves on when something was unlinked.
    pub epoch: AtomicU64,
    /// Moves on when everything is flushed.
    pub flush: AtomicU64,
    /// The last version that an entry got.
    pub version: AtomicU64,
    /// The last number that a region got when it was opened.
    pub opened: AtomicU64,
    /// What readers that are gone have counted.
    pub counted: [AtomicU64; COUNTERS],
    /// Entries that made room.
    pub evicted: AtomicU64,
    /// Stores that found no memory which may be used again.
    pub refused: AtomicU64,
    /// Readers that died and were swept.
    pub swept: AtomicU64,
    /// Times that the lock was taken from the dead.
    pub taken_over: AtomicU64,
    /// Entries that are linked.
    pub entries: AtomicU64,
    /// When somebody looked for the dead among all readers, in milliseconds.
    pub buried: AtomicU64,
    /// What is known of other nodes.
    pub cluster: Cluster,
}

/// What the process that talks to the store shared with other nodes has found out. Times are milliseconds of the monotonic clock.
#[repr(C)]
pub struct Cluster {
    /// For how long a value is good without news of other nodes; 0: no other node changes anything.
    pub staleness: AtomicU64,
    /// Counts what concerns many values: tags and everything. It counts before that takes effect.
    pub news: AtomicU64,
    /// When it had all news; 0: it never had.
    pub heard: AtomicU64,
    /// When it has last said that it lives.
    pub alive: AtomicU64,
    /// When it could last take requests; 0: it cannot.
    pub ready: AtomicU64,
    /// Changes that no other node has been told, because nobody could take them.
    pub untold: AtomicU64,
    /// Of those, what it has seen.
    pub told: AtomicU64,
    /// Changes that it has taken, and that no other node has been told.
    pub unsent: AtomicU64,
    /// Names the bus; 0: none was read.
    pub bus: AtomicU64,
    /// How far it was read.
    pub position: [AtomicU64; 2],
    /// 1 if there is a store.
    pub has_store: AtomicU64,
    /// What it has counted: see [`Talked`].
    pub counted: [AtomicU64; TALKED],
}

/// What the process that talks to the store counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Talked {
    /// Requests of workers.
    Requests = 0,
    /// Of those, the ones to which the store had no reply.
    Failures = 1,
    /// Values and messages whose signature was not right.
    Forged = 2,
}

/// How many there are.
pub const TALKED: usize = 3;

/// What a process counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Counter {
    /// Fetches that found a value.
    Hits = 0,
    /// Fetches that found none.
    Misses = 1,
    /// Values that were stale when they were given out.
    Stale = 2,
    /// Values stored.
    Stores = 3,
    /// Times that somebody waited for a value that another computes.
    Waits = 4,
    /// Values computed.
    Computed = 5,
}

/// How many there are.
pub const COUNTERS: usize = 6;

/// A process that uses the segment.
#[repr(C, align(128))]
pub struct Reader {
    /// Who it is: see [`crate::alive::Who`]. 0: nobody.
    pub who: AtomicU64,
    /// The epoch at the first value that its request got; 0: it has got none.
    pub epoch: AtomicU64,
    /// When that was, in milliseconds.
    pub since: AtomicU64,
    /// Process that made it.
    pub parent: AtomicU32,
    /// The region in which it writes an entry that is not linked yet, plus one.
    pub pending: AtomicU32,
    /// What it has counted.
    pub counted: [AtomicU64; COUNTERS],
}

/// The right to compute a value, or a lock.
#[repr(C, align(64))]
pub struct Lease {
    /// Of the key; 0: free.
    pub hash: AtomicU64,
    /// Reader who has it, plus one.
    pub owner: AtomicU32,
    /// Changes when it is free again; waiters sleep on it.
    pub word: AtomicU32,
    /// When it was taken, in milliseconds.
    pub since: AtomicU64,
    /// From when on others may take it.
    pub until: AtomicU64,
}

/// What is known of a region.
#[repr(C, align(64))]
pub struct Region {
    /// A [`State`].
    pub state: AtomicU32,
    /// Bytes that are given out.
    pub cursor: AtomicU32,
    /// Bytes of linked entries.
    pub live: AtomicU32,
    /// Regions of an entry that is larger than one, in its first region; else 1.
    pub span: AtomicU32,
    /// Changes when its pages are given back to the kernel.
    pub birth: AtomicU32,
    /// 1: its entries are results of pure functions. They have regions of their own, of which there are few, and leave before others.
    pub is_memo: AtomicU32,
    /// When it was opened: a number.
    pub opened: AtomicU64,
    /// Readers of this epoch or a later one see nothing in it.
    pub retired: AtomicU64,
}

/// States of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// Nobody uses it.
    Free = 0,
    /// New entries come here.
    Open = 1,
    /// It has no room.
    Full = 2,
    /// Its entries are being unlinked.
    Evicted = 3,
    /// No entry is linked, and readers may still hold some.
    Retired = 4,
    /// It belongs to the region before it.
    Part = 5,
}

impl State {
    /// From the word in a region; anything else counts as full, which is the state that promises nothing.
    pub fn of(word: u32) -> State {
        [State::Free, State::Open, State::Full, State::Evicted, State::Retired, State::Part]
            .get(word as usize)
            .copied()
            .unwrap_or(State::Full)
    }
}

/// A value with its key. It does not change once it is linked, but for numbers that count.
#[repr(C, align(16))]
pub struct Entry {
    /// PHP's zval; pointers are to where the segment is mapped for reading.
    pub value: [AtomicU64; 2],
    /// Of the key.
    pub hash: u64,
    /// No two entries have the same.
    pub version: u64,
    /// Bytes of all of it.
    pub size: u32,
    /// Bytes of the key.
    pub key_size: u32,
    /// Where the key lies.
    pub key_at: u32,
    /// Where what the value points to begins.
    pub value_at: u32,
    /// When it was stored, in milliseconds.
    pub stored: u64,
    /// From when on it is to be renewed; 0: never.
    pub soft: u64,
    /// From when on it is gone; 0: never.
    pub hard: u64,
    /// Generation of flushes at which it began.
    pub flush: u64,
    /// Microseconds that it took to compute.
    pub cost: u32,
    /// How C has put the value down.
    pub kind: u32,
    /// How many tags follow.
    pub tags: u32,
    _room: u32,
}

/// A tag of an entry: a counter, and what it stood at.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tag {
    /// Number of the counter.
    pub counter: u64,
    /// What it stood at when the value's computation began.
    pub generation: u64,
}

/// Offsets and numbers, made of a size.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of the segment.
    pub size: u64,
    /// Bytes of a chunk.
    pub chunk: u64,
    /// Where the readers lie, and how many there are.
    pub readers: u64,
    #[allow(missing_docs)]
    pub reader_count: u32,
    #[allow(missing_docs)]
    pub lease_count: u32,
    #[allow(missing_docs)]
    pub leases: u64,
    #[allow(missing_docs)]
    pub tags: u64,
    #[allow(missing_docs)]
    pub keys: u64,
    #[allow(missing_docs)]
    pub index: u64,
    #[allow(missing_docs)]
    pub hot: u64,
    #[allow(missing_docs)]
    pub table: u64,
    #[allow(missing_docs)]
    pub tag_count: u32,
    #[allow(missing_docs)]
    pub key_count: u32,
    #[allow(missing_docs)]
    pub buckets: u32,
    /// Chunks before the first region.
    pub first: u32,
    /// How many regions there are.
    pub regions: u32,
}

/// Makes the pages of a range present, for writing or for reading, without faults that a rewind counts.
pub type Populate = extern "C" fn(at: usize, size: usize, writes: bool);
/// Adds `shift` to each pointer in the value of an entry that was moved. `entry` can be written; `alias` is the distance from where it
/// is read to there.
pub type Relocate = extern "C" fn(entry: *mut u8, shift: isize, alias: isize);

const fn power_below(number: u64) -> u64 {
    1 << (63 - number.leading_zeros())
}

const fn within(number: u64, least: u64, most: u64) -> u64 {
    if number < least {
        least
    } else if number > most {
        most
    } else {
        number
    }
}

impl Geometry {
    /// Of a segment of so many bytes, rounded down to whole chunks. None: too small or too large.
    pub const fn of(size: u64) -> Option<Geometry> {
        if size < SMALLEST || size > LARGEST {
            return None;
        }
        let chunk = within(power_below(size / 128), 32 << 10, 32 << 20);
        let size = size / chunk * chunk;
        let unit = power_below(size);
        let reader_count = within(unit >> 15, 64, 2048);
        let lease_count = within(unit >> 15, 64, 1024);
        let tag_count = within(unit >> 10, 1024, 1 << 16);
        let key_count = within(unit >> 12, 1024, 1 << 16);
        let slots = within(unit >> 8, 4096, 1 << 22);
        let readers = 4096;
        let leases = readers + reader_count * size_of::<Reader>() as u64;
        let tags = leases + lease_count * size_of::<Lease>() as u64;
        let keys = tags + tag_count * 8;
        let index = keys + key_count * 4;
        let hot = index + slots * 8;
        let table = hot + slots / 8;
        let chunks = size / chunk;
        let end = table + chunks * size_of::<Region>() as u64;
        let first = end.div_ceil(chunk);
        Some(Geometry {
            size,
            chunk,
            readers,
            reader_count: reader_count as u32,
            lease_count: lease_count as u32,
            leases,
            tags,
            keys,
            index,
            hot,
            table,
            tag_count: tag_count as u32,
            key_count: key_count as u32,
            buckets: (slots / WAYS as u64) as u32,
            first: first as u32,
            regions: (chunks - first) as u32,
        })
    }

    /// Bytes of the largest entry.
    pub const fn largest(&self) -> u64 {
        let most = self.regions as u64 / 8 * self.chunk;
        if most > self.chunk { most } else { self.chunk }
    }

    /// Regions that results of pure functions may have: a quarter.
    pub const fn memo_share(&self) -> u32 {
        if self.regions / 4 > 1 { self.regions / 4 } else { 1 }
    }

    /// Regions that are kept free of entries, so that a store finds one while readers hold others.
    pub const fn spare(&self) -> u32 {
        if self.regions / 16 > 2 { self.regions / 16 } else { 2 }
    }
}

const _: () = assert!(size_of::<Header>() <= 4096 && size_of::<Reader>() == 128 && size_of::<Region>() == 64);
const _: () = assert!(size_of::<Entry>() % 16 == 0);
