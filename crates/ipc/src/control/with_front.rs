//! Between the supervisor and the front.

use super::codec::messages;
use super::names::{DataCounts, LaneId, LaneOffer, RequestId, RunningRequest};
use super::with_watcher::Changes;

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
    /// Post no new request to a lane until the next `Lane` for it, and say what its requests take in classic mode. `Compared`
    /// follows once enough have been made.
    Compare {
        /// The lane.
        lane: LaneId,
    },
    /// A worker was reaped. `SlotFree` follows.
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
    /// Write the access log to a newly opened file (attached).
    AccessLog,
    /// Serve these certificates from now on (attached: a sealed file with them and their keys). `CertificatesTaken` follows.
    Certificates,
    /// Use these keys of TLS tickets from now on (attached: a sealed file).
    TicketKeys,
    /// Give these responses to authorities that check names from now on (attached: a sealed file). `AnswersTaken` follows.
    Answers {
        /// Which they are.
        number: u64,
    },
    /// Settings that a later `Switch` means (attached, as at the start). From now on the supervisor describes the lanes of the
    /// generations that they name. They replace settings that were sent before and not switched to.
    Settings,
    /// Forget the settings that were sent last: no `Switch` to them follows.
    SettingsWithdrawn,
    /// Use the settings that were sent last for every request that comes from now on. `Switched` follows.
    Switch,
    /// Fail the requests that wait in a generation: they are not going to be served.
    GiveUp {
        /// The generation.
        generation: u32,
    },
    /// Make the configured warm-up requests of a generation. A `WarmUp` for each follows.
    WarmUp {
        /// The generation.
        generation: u32,
    },
    /// Serve the requests of a connection (attached: its socket) by a generation, in the mode that each of them names: its pages are
    /// compared with those of classic mode before visitors come.
    Verify {
        /// The generation.
        generation: u32,
    },
    /// Run these paths of a generation in classic mode (attached: a file with a JSON list), in the place of those that were sent before.
    StayClassic {
        /// The generation.
        generation: u32,
    },
    /// Accept clients' connections from now on: everything that has to boot serves.
    Open,
    /// The server is about to stop, and serves on: say so to load balancers and clients.
    Leave,
    /// Finish the requests that are there, take no new one, then end.
    Drain,
    /// A connection to an upstream has begun (attached: its socket), or cannot be begun.
    Connecting {
        /// What the front has called it.
        ticket: u64,
        /// The system's error; 0: none.
        error: i32,
    },
    /// Somebody asks the cache of responses (attached: a file with the question). `Cache` follows.
    Cache {
        /// By which the answer names the question.
        ticket: u64,
    },
    /// This server is not to get requests (attached: a sealed file with the reasons, a line for each application; if it is empty, it
    /// is again). It serves those that come all the same.
    Unfit,
    /// What the data cache of a generation's application has done, and what it holds.
    DataCounts {
        /// The generation.
        generation: u32,
        /// What.
        counts: DataCounts,
    },
    /// The pages of an application whose responses are shared, as an earlier front has learned (attached: a file that it has told them by). It
    /// comes before the first lane.
    Learned {
        /// The generation.
        generation: u32,
    },
    /// What has changed below the directory of an application under development (attached if it cannot be loaded: a file with the
    /// reason). Sent to answer `Fence`, and by itself.
    Changed {
        /// Of the `Fence`; 0: nobody has asked.
        ticket: u64,
        /// The numbers.
        changes: Changes,
        /// The first generation that has all changes in all of its processes.
        fresh: u32,
        /// The oldest generation that serves.
        serving: u32,
        /// The changes that it has in all of its processes: `Changes::count` when it was made.
        made: u64,
    },
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
    0x10d => Certificates {}
    0x10e => TicketKeys {}
    0x10f => Connecting { ticket, error }
    0x110 => Answers { number }
    0x111 => Cache { ticket }
    0x112 => DataCounts { generation, counts }
    0x113 => Changed { ticket, changes, fresh, serving, made }
    0x114 => Unfit {}
    0x115 => Verify { generation }
    0x116 => StayClassic { generation }
    0x117 => Learned { generation }
    0x118 => Leave {}
    0x119 => Compare { lane }
});

/// Front → supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromFront {
    /// The eventfds of the front's threads (attached).
    Doors,
    /// The front serves.
    Ready,
    /// From now on the front posts a lane's requests to its slab.
    LaneTaken {
        /// The lane.
        lane: LaneId,
    },
    /// The front refers to a slot no more: another worker may have it.
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
    /// Kill the worker of a request if it holds more memory than that above what it began with. `TooHeavy` follows if it was
    /// killed.
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
        /// The reason, [`crate::layout::RENEW_ASKED`] or another, as the worker wrote it: it may be any number.
        why: u32,
    },
    /// A script in classic mode asked for a lane of its own (attached: a file with the lane's [`crate::key::Key`]).
    Entry {
        /// The generation.
        generation: u32,
        /// Whether the script asked for worker mode; else it asked for a snapshot.
        is_worker_mode: bool,
        /// In how many requests since the front said so last.
        times: u32,
    },
    /// New requests are served by the settings that were sent last.
    Switched,
    /// New connections get the certificates that were sent last, or those before if the last ones cannot be used.
    CertificatesTaken {
        /// Whether they are used.
        is_taken: bool,
    },
    /// Authorities get the responses that were sent last, or those before if the last ones cannot be used.
    AnswersTaken {
        /// Which they are.
        number: u64,
    },
    /// The front refers no more to a generation that the settings do not name, and has closed its lanes.
    Retired {
        /// The generation.
        generation: u32,
    },
    /// A warm-up request has its response (perhaps attached: a file with the beginning of the response's body).
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
    /// What the front holds for slow clients has changed.
    Spool {
        /// Bytes in memory.
        memory: u64,
        /// Bytes on disk.
        disk: u64,
        /// Responses that PHP wrote faster than their clients took them.
        responses: u64,
        /// Responses that reached a limit.
        full: u64,
        /// Failures to write the file.
        errors: u64,
    },
    /// Begin a connection to an upstream. `Connecting` follows.
    Connect {
        /// What the front calls it.
        ticket: u64,
        /// The generation whose rules name the upstream.
        generation: u32,
        /// Which of its application's addresses.
        address: u32,
    },
    /// The cache's answer (attached: a file with it).
    Cache {
        /// Of the question.
        ticket: u64,
    },
    /// Responses were purged (attached: a sealed file with the application's name and the purge), and other nodes are to do the same.
    Purged,
    /// What the front has learned of the pages of an application has changed (attached: a file with all of it): those whose responses are
    /// shared, which the next front gets back as they are.
    Learned {
        /// The generation whose application's they are.
        generation: u32,
    },
    /// A request has come to an application under development: what has changed by now? `Changed` with this ticket follows.
    Fence {
        /// By which the reply names the question.
        ticket: u64,
    },
    /// What the requests of a lane take in classic mode.
    Compared {
        /// The lane.
        lane: LaneId,
        /// The median of their processor time, as the workers say.
        processor_us: u32,
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
    0x20b => Entry { generation, is_worker_mode, times }
    0x20c => Switched {}
    0x20d => Retired { generation }
    0x20e => WarmUp { generation, index, status, took_us }
    0x20f => Spool { memory, disk, responses, full, errors }
    0x210 => CertificatesTaken { is_taken }
    0x211 => Connect { ticket, generation, address }
    0x212 => AnswersTaken { number }
    0x213 => Cache { ticket }
    0x214 => Purged {}
    0x215 => Fence { ticket }
    0x216 => Learned { generation }
    0x217 => Compared { lane, processor_us }
});
