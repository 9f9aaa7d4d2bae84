//! What lies where in a slab.
//!
//! ```text
//! Header | Slot × slots | queue cell × queue | Exchange × exchanges | report
//! ```
//! An exchange is one page of words, the request head, the ring of the request's body and the ring of the answer.

use crate::atomics::{AtomicU32, AtomicU64};

/// First word of a slab; changes with its layout.
pub const MAGIC: u64 = 0x5245_5052_4953_4508;
/// Bytes of a request head; a longer one is answered 431.
pub const HEAD_SIZE: usize = 32 * 1024;
/// Bytes of the ring of a request's body.
pub const BODY_RING: usize = 64 * 1024;
/// Bytes of the ring of an answer, headers included.
pub const ANSWER_RING: usize = 128 * 1024;
/// Bytes of what the front tells a lane's workers about their application; see [`crate::report`].
pub const REPORT_SIZE: usize = 1024 * 1024;
/// Workers per lane.
pub const MAX_SLOTS: usize = 1024;
/// Requests in flight per lane, waiting ones included.
pub const MAX_EXCHANGES: usize = 4096;
/// Threads of the front.
pub const MAX_DOORS: usize = 16;

const PAGE: usize = 4096;

/// A value with a cache line of its own.
#[repr(C, align(64))]
pub struct Line<T>(pub T);

/// How workers wake one thread of the front.
#[repr(C, align(64))]
pub struct Door {
    /// 1 while the thread is about to sleep or sleeps.
    pub sleeping: AtomicU32,
    /// 1 if a bit of `ready` may have been set since the thread last looked.
    pub pending: AtomicU32,
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
    /// So many workers are to end. Set by the supervisor, counted down by those that do.
    pub surplus: Line<AtomicU32>,
    /// One per thread of the front.
    pub doors: [Door; MAX_DOORS],
    /// Bit per slot: its worker sleeps.
    pub sleepers: Line<[AtomicU64; MAX_SLOTS / 64]>,
    /// Bit per exchange: the front should look at it.
    pub ready: Line<[AtomicU64; MAX_EXCHANGES / 64]>,
    /// Scoreboard: workers that ended, by [`Recycle`].
    pub recycles: Line<[AtomicU64; RECYCLES]>,
    /// Set by workers: code is to be loaded anew, for which reason (`RENEW_`). Cleared by the front.
    pub renewal: Line<AtomicU32>,
    /// Of the report.
    pub report: Line<ReportWords>,
}

/// See [`crate::report`].
#[repr(C)]
pub struct ReportWords {
    /// So many reports were asked for. Counted up by workers.
    pub wanted: AtomicU32,
    /// `wanted` when the last report was begun. What workers sleep on.
    pub made: AtomicU32,
    /// Odd while the front writes the report.
    pub version: AtomicU32,
    /// Bytes of it.
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
    /// The front that used this slab is gone: workers end after their request, whose answer nobody reads.
    Closed = 2,
}

/// A worker's place in the lane, and its line of the scoreboard.
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
    /// Not zero: the worker ends, as one of the [`Header::surplus`].
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
}

/// Why a worker of a snapshot's or worker script's lane ended though it might have served on. The words are those of log, `reprise_info()`
/// and documentation ([`Recycle::word`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Recycle {
    /// A request left a thread running.
    Threads = 0,
    /// A request left a child process running.
    Children = 1,
    /// A descriptor of the snapshot, or one of the worker's own, is gone.
    Descriptors = 2,
    /// A mapping of the snapshot is gone or changed and cannot be made again.
    Mappings = 3,
    /// After the rewind the process has not the size it had.
    Size = 4,
    /// A request changed users, limits, priorities, or what else of a process cannot be put back.
    Attributes = 5,
    /// A request left a timer of its own.
    Timers = 6,
    /// A request left an io_uring, which writes past all protection.
    IoUring = 7,
    /// The protection of pages is gone: its descriptor was closed or replaced.
    Protection = 8,
    /// Audit found a difference.
    Audit = 9,
    /// The kernel refused a step of the rewind.
    Kernel = 10,
    /// Worker mode: a request ended by a fatal error.
    Bailout = 11,
    /// Worker mode: it has served as many requests as `max_requests` says.
    Requests = 12,
    /// It had nothing to do for a while, and memory of its own that a fresh clone does not have.
    Idle = 13,
    /// It is as old as `max_age` says.
    Age = 14,
    /// It held more memory than `max_memory` after a request.
    Memory = 15,
    /// There is a newer snapshot, which has learned something, or shall be one.
    Learned = 16,
    /// Worker mode: a request called `exit`, and the script does not say that it survives that.
    Exit = 17,
}

/// Number of reasons.
pub const RECYCLES: usize = 18;

impl Recycle {
    /// All of them, in order.
    pub const ALL: [Recycle; RECYCLES] = [
        Recycle::Threads,
        Recycle::Children,
        Recycle::Descriptors,
        Recycle::Mappings,
        Recycle::Size,
        Recycle::Attributes,
        Recycle::Timers,
        Recycle::IoUring,
        Recycle::Protection,
        Recycle::Audit,
        Recycle::Kernel,
        Recycle::Bailout,
        Recycle::Requests,
        Recycle::Idle,
        Recycle::Age,
        Recycle::Memory,
        Recycle::Learned,
        Recycle::Exit,
    ];

    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Recycle::Threads => "threads",
            Recycle::Children => "children",
            Recycle::Descriptors => "descriptors",
            Recycle::Mappings => "mappings",
            Recycle::Size => "size",
            Recycle::Attributes => "attributes",
            Recycle::Timers => "timers",
            Recycle::IoUring => "io_uring",
            Recycle::Protection => "protection",
            Recycle::Audit => "audit",
            Recycle::Kernel => "kernel",
            Recycle::Bailout => "bailout",
            Recycle::Requests => "requests",
            Recycle::Idle => "idle",
            Recycle::Age => "age",
            Recycle::Memory => "memory",
            Recycle::Learned => "learned",
            Recycle::Exit => "exit",
        }
    }
}

/// What a worker is doing, for the scoreboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Activity {
    /// No worker.
    Empty = 0,
    /// Forked, not waiting yet.
    Booting = 1,
    /// Waiting for a request.
    Idle = 2,
    /// It has a request, for which PHP gets ready: its environment, cookies, form. From here on there is a request.
    Starting = 3,
    /// The script runs.
    Running = 4,
    /// The answer is out, PHP has not ended the request.
    Finishing = 5,
    /// PHP waits for the client's body.
    Reading = 6,
    /// Memory is being put back.
    Rewinding = 7,
}

/// How many there are of [`Activity`].
pub const ACTIVITIES: usize = 8;

impl Activity {
    /// Whether who does what a slot says has a request.
    pub const fn has_request(activity: u32) -> bool {
        activity >= Activity::Starting as u32
    }

    /// Its word, from what a slot says.
    pub const fn word(activity: u32) -> &'static str {
        match activity {
            0 => "empty",
            1 => "booting",
            2 => "idle",
            3 => "starting",
            4 => "running",
            5 => "finishing",
            6 => "reading",
            7 => "rewinding",
            _ => "unknown",
        }
    }
}

/// A counter that workers write, if it can be one: no server counts as far as 2^48.
pub fn plausible(counter: &AtomicU64) -> Option<u64> {
    Some(counter.load(crate::atomics::Ordering::Relaxed)).filter(|count| *count < 1 << 48)
}

/// The words of an exchange. One line for each writer, so that they do not pull on each other's cache lines.
#[repr(C)]
pub struct Control {
    /// Who has it, see [`crate::owner`].
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
    /// Bytes of answer taken out of the ring.
    pub answer_head: AtomicU64,
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
    /// Bytes of answer published.
    pub answer_tail: AtomicU64,
    /// 1 while the worker sleeps on the bell.
    pub waiting: AtomicU32,
    /// Set by the front when the body ring is full: the worker clears it and says so when it has read.
    pub wants_space: AtomicU32,
    /// [`NOTE_SNAPSHOT`], perhaps with [`NOTE_HOST`], [`NOTE_LOOP`] or nothing: what the worker found out about the script.
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
pub const NOTE_LOOP: u32 = 2;
/// Note: the snapshot is to be one of the request's host and scheme alone.
pub const NOTE_HOST: u32 = 4;

/// Flag: all of the body is in the ring.
pub const BODY_ENDED: u32 = 1;
/// Flag: the client is gone; write nothing more.
pub const ABORTED: u32 = 2;

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
        self.report_at() + REPORT_SIZE
    }

    pub(crate) fn report_at(self) -> usize {
        self.exchanges_at() + self.exchanges as usize * EXCHANGE_SIZE
    }
}

pub(crate) const HEAD_AT: usize = PAGE;
pub(crate) const BODY_AT: usize = HEAD_AT + HEAD_SIZE;
pub(crate) const ANSWER_AT: usize = BODY_AT + BODY_RING;
pub(crate) const EXCHANGE_SIZE: usize = ANSWER_AT + ANSWER_RING;

const _: () = assert!(size_of::<Control>() <= HEAD_AT && EXCHANGE_SIZE % PAGE == 0);
