//! What lies where in a slab.
//!
//! ```text
//! Header | Slot × slots | queue cell × queue | Exchange × exchanges | report | box × slots
//! ```
//! An exchange is one page of words, the request head, the ring of the request's body and the ring of the response.

use crate::atomics::{AtomicU32, AtomicU64};

/// First word of a slab. It depends on the sizes of the structures. A change of meaning without a change of size has to change
/// the last byte.
pub const MAGIC: u64 =
    0x5245_5052_4953_450a ^ ((size_of::<Header>() as u64) << 32) ^ ((size_of::<Slot>() as u64) << 16);
/// Bytes of a request head; a longer one is refused with 431.
pub const HEAD_SIZE: usize = 32 * 1024;
/// Bytes of the ring of a request's body.
pub const BODY_RING: usize = 64 * 1024;
/// Bytes of the ring of a response, headers included.
pub const RESPONSE_RING: usize = 128 * 1024;
/// Bytes of what the front tells a lane's workers about their application; see [`crate::report`].
pub const REPORT_SIZE: usize = 1024 * 1024;
/// Bytes of what a worker says is to be purged; see [`crate::purge`].
pub const PURGE_SIZE: usize = 8 * 1024 - 64;
/// Workers per lane.
pub const MAX_SLOTS: usize = 1024;
/// Requests in flight per lane, waiting ones included.
pub const MAX_EXCHANGES: usize = 4096;
/// Threads of the front.
pub const MAX_DOORS: usize = 16;

const PAGE: usize = 4096;
/// Bytes of a slot's box: its words, and the text behind them.
pub(crate) const PURGE_BOX: usize = 8 * 1024;

/// A value with a cache line of its own.
#[repr(C, align(64))]
pub struct Line<T>(pub T);

/// How workers wake one thread of the front.
#[repr(C, align(64))]
pub struct Door {
    /// 1 while the thread is about to sleep or sleeps.
    pub sleeping: AtomicU32,
    /// Bit per word of the thread's part of `ready`: the word may have bits.
    pub marked: AtomicU64,
}

/// The beginning of a slab.
#[repr(C)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: u64,
    /// The sizes, written once by the maker.
    pub geometry: Geometry,
    /// Producer's position in the queue.
    pub tail: Line<AtomicU64>,
    /// Consumers' position in the queue.
    pub head: Line<AtomicU64>,
    /// A [`Phase`].
    pub phase: Line<AtomicU32>,
    /// How many workers are to end. The supervisor sets it; each worker that ends counts it down.
    pub surplus: Line<AtomicU32>,
    /// One per thread of the front.
    pub doors: [Door; MAX_DOORS],
    /// Bit per slot: its worker sleeps.
    pub sleepers: Line<[AtomicU64; MAX_SLOTS / 64]>,
    /// Bit per exchange: the front should look at it. See [`crate::bell::Marks`].
    pub ready: Line<[AtomicU64; MAX_EXCHANGES / 64]>,
    /// Scoreboard: workers that ended, by [`Recycle`].
    pub recycles: Line<[AtomicU64; RECYCLES]>,
    /// Workers set it to have code loaded anew; the value is the reason (`RENEW_`). The front clears it.
    pub renewal: Line<AtomicU32>,
    /// The words of the report.
    pub report: Line<ReportWords>,
    /// How many texts workers have put into their boxes.
    pub purges: Line<AtomicU32>,
    /// What a worker last saw of its generation's opcache, by [`Opcache`].
    pub opcache: Line<[AtomicU64; OPCACHES]>,
}

/// See [`crate::report`].
#[repr(C)]
pub struct ReportWords {
    /// How many reports were asked for. Workers count it up.
    pub wanted: AtomicU32,
    /// The value of `wanted` when the last report was begun. Workers sleep on this word.
    pub made: AtomicU32,
    /// Odd while the front writes the report.
    pub version: AtomicU32,
    /// Bytes of the report.
    pub size: AtomicU32,
}

/// The words of a slot's box; see [`crate::purge`].
#[repr(C)]
pub struct PurgeWords {
    /// How many texts there were. The worker writes it.
    pub asked: AtomicU32,
    /// The last of them that was served. The front writes it, and the worker sleeps on it.
    pub done: AtomicU32,
    /// Bytes of the text. The worker writes it.
    pub size: AtomicU32,
}

/// Numbers of things in a slab.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Exchanges, a multiple of 64 × doors.
    pub exchanges: u32,
    /// Worker slots.
    pub slots: u32,
    /// Queue cells, a power of two, at least twice the exchanges.
    pub queue: u32,
    /// Front threads; each owns exchanges ÷ doors of them, in one run.
    pub doors: u32,
}

/// What the lane is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Phase {
    /// Requests come and workers take them.
    Open = 0,
    /// No new request will come: a worker that finds the queue empty ends.
    Draining = 1,
    /// The front that used this slab is gone: workers end after their request, whose response nobody reads.
    Closed = 2,
}

/// A worker's slot in the lane: its line of the scoreboard.
#[repr(C, align(128))]
pub struct Slot {
    /// What the worker sleeps on.
    pub bell: AtomicU32,
    /// The worker's process id; 0 while there is none.
    pub pid: AtomicU32,
    /// An [`Activity`].
    pub activity: AtomicU32,
    /// The exchange it last claimed.
    pub exchange: AtomicU32,
    /// Requests claimed since the worker began.
    pub requests: AtomicU64,
    /// Rewinds of the worker that copied its hot pages and nothing else.
    pub fast_rewinds: AtomicU64,
    /// Rewinds of the worker that looked for written pages.
    pub scanned_rewinds: AtomicU64,
    /// Pages copied back by the worker.
    pub pages: AtomicU64,
    /// Not zero: the worker ends, and is one of those that [`Header::surplus`] counts.
    pub leaves: AtomicU32,
    /// [`crate::sys::ticks`] of the last change of `activity`.
    pub since: AtomicU64,
    /// Ticks in each [`Activity`] so far, of all workers that have had this slot.
    pub spent: [AtomicU64; ACTIVITIES],
    /// Second since 1970 in which the worker began.
    pub began: AtomicU64,
    /// Ticks from its claim to its end that the last finished request took; 0: there was none.
    pub last_ticks: AtomicU64,
    /// Microseconds of processor time of the last finished request, if the worker measures.
    pub last_processor_us: AtomicU32,
    /// Most memory of the last finished request, in KiB, if the worker measures.
    pub last_peak_kib: AtomicU32,
    /// Connections to other servers that the worker keeps open.
    pub kept_connections: AtomicU32,
}

crate::table! {
    /// Why a worker ended though it could have served on. A worker of classic mode ends only for what the configuration
    /// allows it to hold; the other reasons are for lanes of a snapshot or of a worker script.
    pub enum Recycle: u32 {
        Threads = 0, "threads": "a request left a thread running";
        Children = 1, "children": "a request left a child process running; the child lives on, as it would under PHP-FPM";
        Descriptors = 2, "descriptors": "a descriptor of the snapshot or of the worker is gone and cannot be made again";
        Mappings = 3, "mappings": "a mapping of the snapshot is gone and cannot be made again, or was made writable";
        Size = 4, "size": "after the rewind the process has not the size it had";
        Attributes = 5, "attributes": "a request changed users, limits, priorities, namespaces, the name of the process, its personality, locked memory, or opened a file of `/proc` for writing (`oom_score_adj`, `comm` …); in classic mode and worker scripts too";
        Timers = 6, "timers": "a request made a POSIX timer";
        IoUring = 7, "io_uring": "a request made an io_uring";
        Protection = 8, "protection": "pages cannot be protected any more, the userfaultfd is gone, or somebody else has cleared soft-dirty bits";
        Audit = 9, "audit": "with `--audit`: a byte or a mapping differs";
        Kernel = 10, "kernel": "a system call failed that must not";
        Bailout = 11, "bailout": "worker script: a request ended by a fatal error";
        Requests = 12, "requests": "it has served `max_requests`";
        Idle = 13, "idle": "twenty to thirty seconds without a request, and 512 KiB or more that it has for itself: pages that requests write stay its own after a rewind, a fresh clone shares them with the template. Not in the log";
        Age = 14, "age": "it is as old as `max_age` says";
        Memory = 15, "memory": "it held more than `max_memory` after a request";
        Learned = 16, "learned": "there is a newer snapshot, with patterns that requests had to compile, or it makes room so that there can be. Not in the log";
        Exit = 17, "exit": "worker script: a request called `exit()`, and the script does not say that it survives that. In the log once";
        Connection = 18, "connection": "a connection that its hooks keep open was closed, or cannot be proved to be as they have left it; or hooks that have failed may be tried again";
    }
}

/// Number of reasons.
pub const RECYCLES: usize = Recycle::ALL.len();

crate::table! {
    /// What workers say of their generation's opcache.
    pub enum Opcache: u32 {
        Looks = 0, "looks": "how often workers of the generation have looked; the lane with most looks has the last numbers";
        Used = 1, "used": "bytes that scripts take";
        Wasted = 2, "wasted": "bytes of scripts that are not used any more";
        Memory = 3, "memory": "bytes that there are";
        Strings = 4, "strings": "bytes that names and texts take";
        StringsMemory = 5, "strings_memory": "bytes that there are for them";
        Scripts = 6, "scripts": "scripts that it holds";
        Keys = 7, "keys": "paths by which they are known";
        MostKeys = 8, "most_keys": "paths that there may be";
    }
}

/// How many there are of [`Opcache`].
pub const OPCACHES: usize = Opcache::ALL.len();

crate::table! {
    /// What a worker is doing, for the scoreboard.
    pub enum Activity: u32 {
        Empty = 0, "empty": "there is no worker";
        Booting = 1, "booting": "it has been forked and does not wait for a request yet";
        Idle = 2, "idle": "it waits for a request";
        Starting = 3, "starting": "PHP gets ready for a request: its environment, cookies, form";
        Running = 4, "running": "the script runs";
        Finishing = 5, "finishing": "the response is sent, and PHP still ends the request";
        Reading = 6, "reading": "PHP waits for the client's body";
        Rewinding = 7, "rewinding": "its memory is restored to the snapshot";
    }
}

/// How many there are of [`Activity`].
pub const ACTIVITIES: usize = Activity::ALL.len();

// Slots and headers have counters by number, so the numbers have no gaps.
const _: () = {
    let mut number = 0;
    while number < RECYCLES {
        assert!(Recycle::ALL[number] as usize == number);
        number += 1;
    }
    number = 0;
    while number < OPCACHES {
        assert!(Opcache::ALL[number] as usize == number);
        number += 1;
    }
    number = 0;
    while number < ACTIVITIES {
        assert!(Activity::ALL[number] as usize == number);
        number += 1;
    }
};

impl Activity {
    /// Whether a worker with this activity has a request.
    pub const fn has_request(activity: u32) -> bool {
        activity >= Activity::Starting as u32
    }

    /// The word of the number in a slot, which may be any number.
    pub fn word_of(activity: u32) -> &'static str {
        Activity::of(activity).map_or("unknown", Activity::word)
    }
}

/// The value of a counter that workers write, unless it is impossible: no server counts as far as 2^48.
pub fn plausible(counter: &AtomicU64) -> Option<u64> {
    Some(counter.load(crate::atomics::Ordering::Relaxed)).filter(|count| *count < 1 << 48)
}

/// The words of an exchange. One line for each writer, so that they do not pull on each other's cache lines.
#[repr(C)]
pub struct Control {
    /// Who has the exchange, see [`crate::owner`].
    pub owner: Line<AtomicU64>,
    /// What the front writes.
    pub front: Line<FrontWords>,
    /// What the worker writes.
    pub worker: Line<WorkerWords>,
}

/// Written by the front, read by the worker.
#[repr(C)]
pub struct FrontWords {
    /// Bytes of body put into the ring.
    pub body_tail: AtomicU64,
    /// Bytes of the response taken out of the ring.
    pub response_head: AtomicU64,
    /// [`BODY_ENDED`] | [`ABORTED`].
    pub flags: AtomicU32,
    /// What a blocked worker sleeps on.
    pub bell: AtomicU32,
    /// Bytes of the request head.
    pub head_size: AtomicU32,
}

/// Written by the worker, read by the front (which also clears `wants_space`).
#[repr(C)]
pub struct WorkerWords {
    /// Bytes of body taken out of the ring.
    pub body_head: AtomicU64,
    /// Bytes of the response published.
    pub response_tail: AtomicU64,
    /// 1 while the worker sleeps on the bell.
    pub waiting: AtomicU32,
    /// The front sets it when the body ring is full. The worker clears it when it has read, and tells the front.
    pub wants_space: AtomicU32,
    /// [`NOTE_SNAPSHOT`], perhaps with [`NOTE_HOST`], [`NOTE_WORKER_MODE`] or nothing: what the worker found out about the script.
    /// Zeroed by the front.
    pub notes: AtomicU32,
    /// [`crate::sys::ticks`] when a worker claimed the request.
    pub claimed: AtomicU64,
    /// Microseconds of processor time the request took, if the worker measures. Zeroed by the front.
    pub processor_us: AtomicU32,
    /// Most memory PHP had for the request, in KiB, if the worker measures. Zeroed by the front.
    pub peak_kib: AtomicU32,
}

/// What a request has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Microseconds of processor time; 0: not measured.
    pub processor_us: u32,
    /// KiB of memory; 0: not measured.
    pub peak_kib: u32,
}

/// Code is to be loaded anew: a script called `opcache_reset()`.
pub const RENEW_ASKED: u32 = 1;
/// Code is to be loaded anew: opcache is to restart, and waits for processes that do not end.
pub const RENEW_RESTART: u32 = 2;
/// Code is to be loaded anew: opcache is full.
pub const RENEW_FULL: u32 = 3;

/// Note: the script called `reprise_snapshot()` where there is none.
pub const NOTE_SNAPSHOT: u32 = 1;
/// Note: the script called `reprise_handle_request()` where there is one request.
pub const NOTE_WORKER_MODE: u32 = 2;
/// Note: the snapshot is to be for the request's host and scheme alone.
pub const NOTE_HOST: u32 = 4;

/// Flag: all of the body is in the ring.
pub const BODY_ENDED: u32 = 1;
/// Flag: the client is gone; write nothing more.
pub const ABORTED: u32 = 2;
/// Flag: the front takes no more of the response, for whatever reason. The rest of the body still comes.
pub const RESPONSE_ENDED: u32 = 4;

impl Geometry {
    /// Sizes for a lane: `requests` in flight at most, `slots` workers, `doors` front threads. Rounds up, clamps to the
    /// limits above.
    pub fn new(requests: usize, slots: usize, doors: usize) -> Geometry {
        let doors = doors.clamp(1, MAX_DOORS);
        let unit = 64 * doors;
        let exchanges = requests.max(1).div_ceil(unit).clamp(1, MAX_EXCHANGES / unit) * unit;
        Geometry {
            exchanges: exchanges as u32,
            slots: slots.clamp(1, MAX_SLOTS) as u32,
            queue: (2 * exchanges).next_power_of_two() as u32,
            doors: doors as u32,
        }
    }

    /// True if a slab may have this geometry.
    pub fn is_valid(self) -> bool {
        self == Geometry::new(self.exchanges as usize, self.slots as usize, self.doors as usize)
    }

    /// Exchanges of one front thread.
    pub fn per_door(self) -> usize {
        (self.exchanges / self.doors) as usize
    }

    pub(crate) fn slots_at(self) -> usize {
        size_of::<Header>().next_multiple_of(128)
    }

    pub(crate) fn queue_at(self) -> usize {
        self.slots_at() + self.slots as usize * size_of::<Slot>()
    }

    pub(crate) fn exchanges_at(self) -> usize {
        (self.queue_at() + self.queue as usize * 8).next_multiple_of(PAGE)
    }

    /// Bytes of the whole slab. Untouched pages take no memory.
    pub fn size(self) -> usize {
        self.purges_at() + self.slots as usize * PURGE_BOX
    }

    pub(crate) fn purges_at(self) -> usize {
        self.report_at() + REPORT_SIZE
    }

    pub(crate) fn report_at(self) -> usize {
        self.exchanges_at() + self.exchanges as usize * EXCHANGE_SIZE
    }
}

pub(crate) const HEAD_AT: usize = PAGE;
pub(crate) const BODY_AT: usize = HEAD_AT + HEAD_SIZE;
pub(crate) const RESPONSE_AT: usize = BODY_AT + BODY_RING;
pub(crate) const EXCHANGE_SIZE: usize = RESPONSE_AT + RESPONSE_RING;

const _: () = assert!(size_of::<Control>() <= HEAD_AT && EXCHANGE_SIZE % PAGE == 0);
const _: () = assert!(size_of::<PurgeWords>() <= PURGE_BOX - PURGE_SIZE && REPORT_SIZE % PAGE == 0);
