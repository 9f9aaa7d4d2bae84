//! Between the supervisor and the processes that fork workers: prototypes, templates, forkers of worker scripts. C has both
//! types as tagged structures, and reads and writes packets by `wire_read_message` and `wire_write_message`.

use super::codec::messages;
use super::names::{Bodies, Isolation};
use crate::layout::Geometry;

/// Supervisor → forker. It is about the forker's own lane, but for `Boot`.
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
    /// Fork a worker. Answered by `Spawned` or `NotSpawned`.
    Spawn {
        /// The worker's slot.
        slot: u32,
        /// The slab that it is meant for.
        epoch: u64,
    },
    /// To a prototype: fork a template for a lane (attached: the template's control socket, then a file with the head of
    /// its boot request as [`crate::head`] lays it out). Answered by `TemplateSpawned` or `TemplateNotSpawned`.
    Boot {
        /// The template's lane.
        lane: u32,
        /// What is wanted.
        isolation: Isolation,
    },
    /// Where is a worker in its PHP code? Answered by `Traced`.
    Trace {
        /// The worker.
        pid: i32,
    },
    /// Answer with `Pong`.
    Ping,
    /// Finish what there is, take nothing new, end.
    Drain,
}

messages!(ToForker {
    0x301 => Slab { geometry, epoch }
    0x302 => Spawn { slot, epoch }
    0x303 => Boot { lane, isolation }
    0x304 => Trace { pid }
    0x305 => Ping {}
    0x306 => Drain {}
});

/// Forker → supervisor. It is about the forker's own lane, but for what a prototype says of templates.
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
        /// What it has got.
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
        /// How it ended, as wait says.
        status: i32,
        /// The slab that it had.
        epoch: u64,
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
        /// How it ended, as wait says.
        status: i32,
    },
    /// Where a worker is in its PHP code (attached: a file with the text).
    Traced {
        /// The worker.
        pid: i32,
    },
    /// The forker hears.
    Pong,
    /// Files that a generation has loaded have changed.
    FilesChanged,
}

messages!(FromForker {
    0x401 => PrototypeReady { bodies }
    0x402 => TemplateReady { isolation, is_for_one_host, bodies }
    0x403 => Spawned { slot, pid, epoch }
    0x404 => NotSpawned { slot, error, epoch }
    0x405 => Dead { slot, pid, status, epoch }
    0x406 => TemplateSpawned { lane, pid }
    0x407 => TemplateNotSpawned { lane, error }
    0x408 => TemplateDead { lane, pid, status }
    0x409 => Traced { pid }
    0x40a => Pong {}
    0x40b => FilesChanged {}
});
