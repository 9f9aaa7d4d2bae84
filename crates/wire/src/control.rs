//! What supervisor, front and prototypes say to each other: one fixed message per packet of a socket pair.

/// What a message means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// Prototype or front → supervisor: ready. From a front also: it serves.
    Ready = 1,
    /// Supervisor → prototype: fork a worker for `slot` of `lane`.
    Spawn = 2,
    /// Prototype → supervisor: `pid` is the worker of `slot`; pid 0: it could not be forked, `status` is errno.
    Spawned = 3,
    /// Prototype → supervisor → front: the worker of `slot` was reaped with wait status `status`.
    Dead = 4,
    /// Front → supervisor: nothing refers to `slot` any more.
    SlotFree = 5,
    /// Supervisor → front: use the slab (descriptor and geometry attached) for `lane` of `application`; if `status` is not 0,
    /// its workers come and go whatever the settings say. Supervisor →
    /// prototype or template: fork workers on this slab from now on (eventfds attached too). Front → supervisor, without
    /// descriptors: requests for this lane go there from now on.
    Lane = 6,
    /// Front → supervisor: the eventfds of its threads (attached).
    Doors = 7,
    /// Supervisor → front or prototype: finish what there is, take nothing new, end.
    Drain = 8,
    /// Front → supervisor: kill the worker of `slot`, which ran over a limit.
    Kill = 9,
    /// Supervisor → prototype: fork a template for `lane`; attached are its control socket and a file with the head of
    /// its boot request (as [`crate::head`] lays it out). `status` is an [`Isolation`]. Answered by `Spawned` with the slot
    /// [`TEMPLATE`]; its death by `Dead` with that slot. The template says `Ready` itself, with the isolation it has got
    /// in `status` and in `slot` 1 if its snapshot is for the host and scheme of its boot alone, and then takes `Lane`, `Spawn` and `Drain` as a prototype does.
    Boot = 10,
    /// Supervisor → front: post no new request to `lane`, until the next `Lane` for it.
    LaneDown = 11,
    /// Supervisor → front: the access log, opened again (attached).
    AccessLog = 13,
    /// Front → supervisor: a script in `lane` 0 asked for a lane of its own; `status` is [`Isolation::Loop`] for a worker
    /// script and 0 for a snapshot; attached is a file with the lane's [`crate::key::Key`].
    /// In `Lane` of any lane but 0 the same file follows the slab.
    Entry = 12,
    /// Supervisor → front: what it may be told to go over to (attached: settings, as at its start), in which lanes of
    /// generations that come after this are described. Another takes its place; without a file there is none any more.
    Settings = 14,
    /// Supervisor → front: go over to these settings for every request that comes from now on. Front → supervisor: done.
    Switch = 15,
    /// Front → supervisor: nothing refers to the generation `application` any more, which the settings do not name; its
    /// lanes are gone.
    Retired = 16,
    /// Supervisor → front: what waits in the generation `application` is not going to be served.
    GiveUp = 17,
    /// Supervisor → front: make the configured warm-up requests of the generation `application`. Front → supervisor: the one of
    /// number `slot` was answered with `status` (0: it cannot be made) after `limit` microseconds; attached may be a file with
    /// the beginning of its body.
    WarmUp = 19,
    /// Front → supervisor: requests wait in `lane` and no worker is idle.
    Busy = 20,
    /// Front → supervisor: as `Kill`, but the worker is only told to end its request.
    Overtime = 21,
    /// Supervisor → forker: where is the worker `pid` in its PHP code? Forker → supervisor: the same message, with the
    /// answer as text (attached).
    Trace = 22,
    /// Front → supervisor: the request of `slot`, named as for `Kill`, runs for longer than is usual.
    Slow = 23,
    /// Front → supervisor: kill the worker of `slot` if it holds `status` KiB of memory more than it began with, provided that it
    /// still runs the request, named as for `Kill`. Supervisor → front: the same message, if that was done.
    Weigh = 24,
    /// Supervisor → forker: do you answer? Forker → supervisor: the same message.
    Ping = 26,
    /// Front → supervisor: a new generation is wanted in place of `application`; `status` says why, as
    /// [`crate::layout::RENEW_ASKED`] and its like. Prototype → supervisor: files have changed.
    Renew = 18,
    /// Supervisor → front: everything that is to be booted serves: visitors' connections are taken from now on.
    Open = 25,
}

/// How a template keeps requests apart. As `status` of `Boot`, and of a template's `Ready`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Isolation {
    /// The best the kernel allows.
    Auto = 0,
    /// Memory is rewound after each request.
    Rewind = 1,
    /// A process for each request.
    Fork = 2,
    /// Not at all: a worker script handles them in a loop.
    Loop = 3,
}

/// Lanes of an application at most: `classic` and eight with a template.
pub const MAX_LANES: usize = 9;

/// The slot by which `Spawned` and `Dead` mean a lane's template.
pub const TEMPLATE: u32 = u32::MAX;

/// A message. Unused fields are zero.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// A [`Kind`].
    pub kind: u32,
    /// Number of the generation of an application: never used again.
    pub application: u32,
    /// Number of the lane within it; 0 is `classic`, the others have a template each.
    pub lane: u32,
    /// Number of the slot within the lane.
    pub slot: u32,
    /// Process id.
    pub pid: i32,
    /// Wait status or errno.
    pub status: i32,
    /// For `Lane`.
    pub geometry: crate::layout::Geometry,
    /// Which of successive slabs a message is about; `Spawn` to `Kill` of an older one are ignored.
    pub epoch: u64,
    /// For `Ready` of a forker and `Lane`: bytes of body PHP takes (post_max_size), 0 for any number.
    pub limit: u64,
    /// For the same: name of the file by which a directory raises that limit (`.user.ini`), zeros behind it; empty: none does.
    pub settings_file: [u8; SETTINGS_FILE],
}

/// Bytes of `settings_file`, with a zero at the end.
pub const SETTINGS_FILE: usize = 32;

/// Words of a message before its text.
const WORDS: usize = 14;

/// Bytes of a message.
pub const SIZE: usize = size_of::<Message>();

impl Message {
    /// A message with everything else zero.
    pub const fn new(kind: Kind) -> Message {
        let geometry = crate::layout::Geometry { exchanges: 0, slots: 0, queue: 0, doors: 0 };
        let settings_file = [0; SETTINGS_FILE];
        let (application, lane, slot, pid, status, epoch, limit) = (0, 0, 0, 0, 0, 0, 0);
        Message { kind: kind as u32, application, lane, slot, pid, status, geometry, epoch, limit, settings_file }
    }

    /// The kind, if it is one.
    pub const fn kind(&self) -> Option<Kind> {
        Some(match self.kind {
            1 => Kind::Ready,
            2 => Kind::Spawn,
            3 => Kind::Spawned,
            4 => Kind::Dead,
            5 => Kind::SlotFree,
            6 => Kind::Lane,
            7 => Kind::Doors,
            8 => Kind::Drain,
            9 => Kind::Kill,
            10 => Kind::Boot,
            11 => Kind::LaneDown,
            12 => Kind::Entry,
            13 => Kind::AccessLog,
            14 => Kind::Settings,
            15 => Kind::Switch,
            16 => Kind::Retired,
            17 => Kind::GiveUp,
            18 => Kind::Renew,
            19 => Kind::WarmUp,
            20 => Kind::Busy,
            21 => Kind::Overtime,
            22 => Kind::Trace,
            23 => Kind::Slow,
            24 => Kind::Weigh,
            25 => Kind::Open,
            26 => Kind::Ping,
            _ => return None,
        })
    }

    /// The message as bytes.
    pub fn encode(&self) -> [u8; SIZE] {
        let words: [u32; WORDS] = [
            self.kind,
            self.application,
            self.lane,
            self.slot,
            self.pid as u32,
            self.status as u32,
            self.geometry.exchanges,
            self.geometry.slots,
            self.geometry.queue,
            self.geometry.doors,
            self.epoch as u32,
            (self.epoch >> 32) as u32,
            self.limit as u32,
            (self.limit >> 32) as u32,
        ];
        let mut bytes = [0; SIZE];
        for (chunk, word) in bytes.chunks_exact_mut(4).zip(words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes[4 * WORDS..].copy_from_slice(&self.settings_file);
        bytes
    }

    /// Reads a message back. The kind may be unknown.
    pub fn decode(bytes: &[u8; SIZE]) -> Message {
        let word = |index: usize| {
            u32::from_le_bytes([bytes[4 * index], bytes[4 * index + 1], bytes[4 * index + 2], bytes[4 * index + 3]])
        };
        let mut settings_file = [0; SETTINGS_FILE];
        settings_file.copy_from_slice(&bytes[4 * WORDS..]);
        Message {
            settings_file,
            kind: word(0),
            application: word(1),
            lane: word(2),
            slot: word(3),
            pid: word(4) as i32,
            status: word(5) as i32,
            geometry: crate::layout::Geometry { exchanges: word(6), slots: word(7), queue: word(8), doors: word(9) },
            epoch: u64::from(word(10)) | u64::from(word(11)) << 32,
            limit: u64::from(word(12)) | u64::from(word(13)) << 32,
        }
    }
}

const _: () = assert!(SIZE == 4 * WORDS + SETTINGS_FILE);
