//! Between the supervisor and the processes that fork workers: prototypes, templates, forkers of worker scripts. C has both
//! types as tagged structures, and reads and writes packets by `ipc_read_message` and `ipc_write_message`.

use super::codec::messages;
use super::names::{Bodies, DataCounts, Isolation};
use crate::layout::Geometry;

/// Supervisor → forker. Each message but `Boot` is about the forker's own lane.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToForker {
    /// Fork workers on a slab from now on (attached: the slab, then the eventfd of each of the front's threads).
    Slab {
        /// The layout of the slab.
        geometry: Geometry,
        /// Which of successive slabs it is.
        epoch: u64,
    },
    /// Fork a worker. `Spawned` or `NotSpawned` follows.
    Spawn {
        /// The worker's slot.
        slot: u32,
        /// The slab that it is meant for.
        epoch: u64,
    },
    /// To a prototype: fork a template for a lane (attached: the template's control socket, then a file with the head of
    /// its boot request as [`crate::head`] lays it out). `TemplateSpawned` or `TemplateNotSpawned` follows.
    Boot {
        /// The template's lane.
        lane: u32,
        /// The isolation that is wanted.
        isolation: Isolation,
    },
    /// Say where a worker is in its PHP code. `Traced` follows.
    Trace {
        /// The worker.
        pid: i32,
    },
    /// Say over and over where the workers that have requests are (attached: a socket for packets, which ends when this is over). No message follows.
    Profile {
        /// The lane, for the packets.
        lane: u32,
        /// Microseconds from one look to the next, if looking costs little enough.
        interval_us: u32,
        /// For so many milliseconds.
        duration_ms: u32,
    },
    /// Send `Pong`. A prototype of an application with a data cache sends `DataCounts` before it.
    Ping,
    /// To a prototype: have a child answer a question about the data cache (attached: a file with the question, and a pipe for the
    /// answer). No message follows: the pipe ends with the answer.
    DataQuestion,
    /// Finish the requests that are there, take no new one, then end.
    Drain,
}

messages!(ToForker {
    0x301 => Slab { geometry, epoch }
    0x302 => Spawn { slot, epoch }
    0x303 => Boot { lane, isolation }
    0x304 => Trace { pid }
    0x305 => Ping {}
    0x306 => Drain {}
    0x307 => DataQuestion {}
    0x308 => Profile { lane, interval_us, duration_ms }
});

/// Forker → supervisor. Messages are about the forker's own lane, except those of a prototype about templates.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromForker {
    /// A prototype has started PHP's modules.
    PrototypeReady {
        /// The bodies that PHP takes.
        bodies: Bodies,
    },
    /// A template has its snapshot, or a worker script has come to its loop.
    TemplateReady {
        /// The isolation that it has got.
        isolation: Isolation,
        /// Its snapshot is for the host and scheme of its boot request alone.
        is_for_one_host: bool,
        /// The bodies that PHP takes.
        bodies: Bodies,
    },
    /// A worker was forked.
    Spawned {
        /// Its slot.
        slot: u32,
        /// Its process.
        pid: i32,
        /// Its slab.
        epoch: u64,
    },
    /// A worker could not be forked.
    NotSpawned {
        /// Its slot.
        slot: u32,
        /// Why.
        error: i32,
        /// Its slab.
        epoch: u64,
    },
    /// A worker was reaped.
    Dead {
        /// The slot that it had.
        slot: u32,
        /// Its process.
        pid: i32,
        /// The status that wait gives.
        status: i32,
        /// The slab that it had.
        epoch: u64,
        /// Microseconds of processor time that it has taken, and its forker to fork it.
        processor_us: u32,
    },
    /// A prototype has forked a template.
    TemplateSpawned {
        /// The template's lane.
        lane: u32,
        /// Its process.
        pid: i32,
    },
    /// A prototype could not fork a template.
    TemplateNotSpawned {
        /// The template's lane.
        lane: u32,
        /// Why.
        error: i32,
    },
    /// A prototype has reaped a template.
    TemplateDead {
        /// The template's lane.
        lane: u32,
        /// Its process.
        pid: i32,
        /// The status that wait gives.
        status: i32,
    },
    /// Where a worker is in its PHP code (attached: a file with the text).
    Traced {
        /// The worker.
        pid: i32,
    },
    /// The forker is alive.
    Pong,
    /// Files that a generation has loaded have changed.
    FilesChanged,
    /// A prototype says what the data cache has done and holds.
    DataCounts {
        /// What.
        counts: DataCounts,
    },
}

messages!(FromForker {
    0x401 => PrototypeReady { bodies }
    0x402 => TemplateReady { isolation, is_for_one_host, bodies }
    0x403 => Spawned { slot, pid, epoch }
    0x404 => NotSpawned { slot, error, epoch }
    0x405 => Dead { slot, pid, status, epoch, processor_us }
    0x406 => TemplateSpawned { lane, pid }
    0x407 => TemplateNotSpawned { lane, error }
    0x408 => TemplateDead { lane, pid, status }
    0x409 => Traced { pid }
    0x40a => Pong {}
    0x40b => FilesChanged {}
    0x40c => DataCounts { counts }
});
