//! What messages name, and what several of them describe.

use super::codec::{Field, Malformed, Packet, Reader, structure_field};
use crate::layout::Geometry;
use crate::queue;

/// Lanes of an application at most: `classic` and eight with a template.
pub const MAX_LANES: usize = 9;

/// Bytes of the name of a settings file, with a zero at the end.
pub const SETTINGS_FILE: usize = 32;

/// A lane of one generation, as one front knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneId {
    /// Number of the generation: never used again.
    pub generation: u32,
    /// Number of the lane within the generation; 0 is `classic`, the others have a template each.
    pub lane: u32,
    /// Which of successive slabs the lane has. Messages about an older slab are ignored.
    pub epoch: u64,
}

structure_field!(LaneId { generation, lane, epoch });

/// One use of an exchange: a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId {
    /// Number of the exchange.
    pub exchange: u32,
    /// Which of successive requests in that exchange.
    pub sequence: u32,
}

structure_field!(RequestId { exchange, sequence });

impl RequestId {
    /// The entry of the lane's queue for it.
    pub const fn of_entry(entry: u64) -> RequestId {
        let (exchange, sequence) = queue::unpack(entry);
        RequestId { exchange, sequence }
    }
}

/// A request that a worker has, as far as the front knows. The worker may have gone on to another meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningRequest {
    /// The lane whose worker it is.
    pub lane: LaneId,
    /// The worker's slot.
    pub slot: u32,
    /// The request.
    pub request: RequestId,
}

structure_field!(RunningRequest { lane, slot, request });

/// What the front is to use for a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneOffer {
    /// The lane.
    pub id: LaneId,
    /// The layout of its slab.
    pub geometry: Geometry,
    /// The number of its workers changes whatever the settings say: the lane shares them with other lanes.
    pub shares_workers: bool,
    /// The request bodies that it takes.
    pub bodies: Bodies,
}

structure_field!(LaneOffer { id, geometry, shares_workers, bodies });

/// The request bodies that PHP takes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bodies {
    /// Bytes of a body at most (post_max_size); 0: any number.
    pub limit: u64,
    /// Name of the file that raises that limit for a directory (`.user.ini`), with zeros behind it. Empty: there is no such file.
    pub settings_file: [u8; SETTINGS_FILE],
}

structure_field!(Bodies { limit, settings_file });

/// What an application's data cache has done, and what it holds, as one of its processes says.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataCounts {
    /// Fetches that found a value.
    pub hits: u64,
    /// Fetches that found none.
    pub misses: u64,
    /// Values that were stale when they were given out.
    pub stale: u64,
    /// Values stored.
    pub stores: u64,
    /// Times that a request waited for a value that another computed.
    pub waits: u64,
    /// Values computed.
    pub computed: u64,
    /// Values that made room for others.
    pub evicted: u64,
    /// Values that were not stored, because no memory could be used again.
    pub refused: u64,
    /// Processes that died and were swept.
    pub swept: u64,
    /// Values that it holds.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of its memory.
    pub memory: u64,
    /// Bytes that cannot be used again yet.
    pub held: u64,
    /// How long the oldest request that holds them has held them.
    pub held_ms: u64,
    /// 1 if there is a store that is shared with other nodes; else what follows is 0.
    pub has_store: u64,
    /// 1 if it can be asked.
    pub store_ready: u64,
    /// Changes of which other nodes were not told yet.
    pub store_untold: u64,
    /// Requests of workers to it.
    pub store_requests: u64,
    /// Of those, the ones to which it had no reply.
    pub store_failures: u64,
    /// Values and messages whose signature was not right.
    pub store_forged: u64,
}

structure_field!(DataCounts {
    hits,
    misses,
    stale,
    stores,
    waits,
    computed,
    evicted,
    refused,
    swept,
    entries,
    bytes,
    memory,
    held,
    held_ms,
    has_store,
    store_ready,
    store_untold,
    store_requests,
    store_failures,
    store_forged
});

/// How a lane keeps requests apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Isolation {
    /// The best the kernel allows.
    Auto = 0,
    /// Memory is rewound after each request, by whichever way the kernel allows.
    Rewind = 1,
    /// A process for each request.
    Fork = 2,
    /// Requests are not kept apart: worker mode.
    WorkerMode = 3,
    /// Memory is rewound; an asynchronous userfaultfd shows what was written.
    Userfaultfd = 4,
    /// Memory is rewound; soft-dirty bits show what was written.
    SoftDirty = 5,
}

impl Isolation {
    /// All of them.
    pub const ALL: [Isolation; 6] = [
        Isolation::Auto,
        Isolation::Rewind,
        Isolation::Fork,
        Isolation::WorkerMode,
        Isolation::Userfaultfd,
        Isolation::SoftDirty,
    ];

    /// Its word in configuration, arguments, messages and `reprise_info()`.
    pub const fn word(self) -> &'static str {
        match self {
            Isolation::Auto => "auto",
            Isolation::Rewind => "rewind",
            Isolation::Fork => "fork",
            Isolation::WorkerMode => "none",
            Isolation::Userfaultfd => "userfaultfd",
            Isolation::SoftDirty => "soft-dirty",
        }
    }
}

impl Field for Isolation {
    fn put(&self, packet: &mut Packet) {
        (*self as i32).put(packet);
    }
    fn take(from: &mut Reader<'_>) -> Result<Isolation, Malformed> {
        let number = i32::take(from)?;
        Isolation::ALL.into_iter().find(|one| *one as i32 == number).ok_or(Malformed::Value)
    }
}

structure_field!(Geometry { exchanges, slots, queue, doors });
