//! Between the supervisor and the front.

use super::codec::messages;
use super::names::{LaneId, LaneOffer, RequestId, RunningRequest};

/// Supervisor → front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToFront {
    /// Use a slab for a lane (attached: the slab; unless the lane is `classic` also a file with its [`crate::key::Key`]).
    /// If the front has the lane already, its template or prototype has started anew.
    Lane {
        /// The lane.
        offer: LaneOffer,
    },
    /// Post no new request to a lane until the next `Lane` for it.
    LaneDown {
        /// The lane.
        lane: LaneId,
    },
    /// A worker was reaped. Answered by `SlotFree`.
    WorkerDead {
        /// The lane.
        lane: LaneId,
        /// The slot that the worker had.
        slot: u32,
    },
    /// The worker of a request is being killed: it holds more memory than the request may.
    TooHeavy {
        /// The lane.
        lane: LaneId,
        /// The request.
        request: RequestId,
    },
    /// The access log, opened again (attached).
    AccessLog,
    /// What the front may be told to switch to (attached: settings, as at its start). Lanes of generations that the
    /// settings name are described from now on. Replaces earlier ones.
    Settings,
    /// There will be no switch to the settings that were sent last.
    SettingsWithdrawn,
    /// Use the settings that were sent last for every request that comes from now on. Answered by `Switched`.
    Switch,
    /// What waits in a generation is not going to be served.
    GiveUp {
        /// The generation.
        generation: u32,
    },
    /// Make the configured warm-up requests of a generation. Answered by `WarmUp` for each.
    WarmUp {
        /// The generation.
        generation: u32,
    },
    /// Everything that is to be booted serves: visitors' connections are taken from now on.
    Open,
    /// Finish what there is, take nothing new, end.
    Drain,
}

messages!(ToFront {
    0x101 => Lane { offer }
    0x102 => LaneDown { lane }
    0x103 => WorkerDead { lane, slot }
    0x104 => TooHeavy { lane, request }
    0x105 => AccessLog {}
    0x106 => Settings {}
    0x107 => SettingsWithdrawn {}
    0x108 => Switch {}
    0x109 => GiveUp { generation }
    0x10a => WarmUp { generation }
    0x10b => Open {}
    0x10c => Drain {}
});

/// Front → supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromFront {
    /// The eventfds of the front's threads (attached).
    Doors,
    /// It serves.
    Ready,
    /// Requests for a lane go to its slab from now on.
    LaneTaken {
        /// The lane.
        lane: LaneId,
    },
    /// Nothing refers to a slot any more.
    SlotFree {
        /// The lane.
        lane: LaneId,
        /// The slot.
        slot: u32,
    },
    /// A request ran over a limit: kill its worker.
    Kill {
        /// The request.
        running: RunningRequest,
    },
    /// A request ran over a limit: tell its worker to end the request.
    Overtime {
        /// The request.
        running: RunningRequest,
    },
    /// A request runs for longer than is usual.
    Slow {
        /// The request.
        running: RunningRequest,
    },
    /// Kill the worker of a request if it holds so much more memory than it began with. Answered by `TooHeavy` if that was
    /// done.
    Weigh {
        /// The request.
        running: RunningRequest,
        /// What the request may hold.
        limit_kib: u64,
    },
    /// Requests wait in a lane and no worker is idle.
    Busy {
        /// The lane.
        lane: LaneId,
    },
    /// A worker of a lane wants a new generation in place of its own.
    Renew {
        /// The lane.
        lane: LaneId,
        /// [`crate::layout::RENEW_ASKED`] or its like, as the worker wrote it: it may be anything.
        why: u32,
    },
    /// A script in classic mode asked for a lane of its own (attached: a file with the lane's [`crate::key::Key`]).
    Entry {
        /// The generation.
        generation: u32,
        /// It is a worker script; else it asked for a snapshot.
        is_worker_mode: bool,
    },
    /// New requests are served by the settings that were sent last.
    Switched,
    /// Nothing refers to a generation any more that the settings do not name; its lanes are gone.
    Retired {
        /// The generation.
        generation: u32,
    },
    /// A warm-up request has its response (attached may be: a file with the beginning of its body).
    WarmUp {
        /// The generation.
        generation: u32,
        /// Which of the configured requests.
        index: u32,
        /// The status of the response; 0: the request cannot be made.
        status: u32,
        /// How long it took.
        took_us: u64,
    },
}

messages!(FromFront {
    0x201 => Doors {}
    0x202 => Ready {}
    0x203 => LaneTaken { lane }
    0x204 => SlotFree { lane, slot }
    0x205 => Kill { running }
    0x206 => Overtime { running }
    0x207 => Slow { running }
    0x208 => Weigh { running, limit_kib }
    0x209 => Busy { lane }
    0x20a => Renew { lane, why }
    0x20b => Entry { generation, is_worker_mode }
    0x20c => Switched {}
    0x20d => Retired { generation }
    0x20e => WarmUp { generation, index, status, took_us }
});
