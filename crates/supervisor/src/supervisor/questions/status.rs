//! What `reprise status` shows: the scoreboard that workers keep in their slabs, with what the system says of the workers.
//! Words and numbers from a slab are the workers' own: the status shows them, and nothing follows from them here. What
//! cannot be true is shown as unknown (`null`).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use control::status::{self, LaneState, Mode, ServerState, Status};
use ipc::atomics::Ordering;
use ipc::control::Isolation;
use ipc::layout::{Activity, Opcache, Recycle, Slot as Line, plausible};
use ipc::slab::Slab;
use ipc::sys::ticks;

use crate::lanes::generation::{Generation, Stage};
use crate::lanes::lane::Lane;
use crate::os::sys;
use crate::plan::Slot;
use crate::supervisor::Supervisor;
use crate::supervisor::questions::trace::request_in;

/// No worker keeps more connections; what its slab says may be anything.
const MOST_KEPT: u32 = 64;

/// The rate of [`ticks`], found out over the life of the supervisor.
pub(crate) struct Rate {
    began: Instant,
    first: u64,
}

impl Rate {
    pub(crate) fn begin() -> Rate {
        Rate { began: Instant::now(), first: ticks() }
    }

    /// So many ticks as time; `None` if that is more than has passed.
    fn seconds(&self, count: u64) -> Option<f64> {
        let passed = ticks().saturating_sub(self.first);
        (count <= passed).then(|| count as f64 / (passed as f64 / self.began.elapsed().as_secs_f64()))
    }

    /// How long ago a clock showed that; `None` if it makes no sense.
    pub(crate) fn since(&self, then: u64) -> Option<Duration> {
        let (now, seconds) = (ticks(), self.began.elapsed().as_secs_f64());
        let ticks_of = |from: u64| now.checked_sub(from).map(|ticks| ticks as f64);
        let ago = ticks_of(then)? / (ticks_of(self.first)? / seconds);
        Duration::try_from_secs_f64(ago).ok().filter(|ago| *ago < Duration::from_secs(86400 * 365))
    }
}

impl Supervisor {
    /// The response to `status`.
    pub(crate) fn status(&self) -> Status {
        let mut applications: BTreeMap<String, Vec<status::Generation>> = BTreeMap::new();
        for number in self.generations.ids() {
            let Some(generation) = self.generations.get(number) else { continue };
            let of_application = applications.entry(generation.application.name.clone()).or_default();
            of_application.push(self.status_of(generation));
        }
        let front = self.front.child();
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            seconds: self.began.elapsed().as_secs_f64(),
            state: if self.announced { self.shutdown.stage().shown() } else { ServerState::Starting },
            front: front.map(|front| status::Front {
                pid: front.pid,
                seconds: front.since.elapsed().as_secs_f64(),
                spool: self.front.spool().clone(),
            }),
            applications,
            caches: None,
            data_caches: None,
        }
    }

    fn status_of(&self, generation: &Generation) -> status::Generation {
        let (stage, since) = match generation.stage {
            Stage::Booting => (status::Stage::Booting, None),
            Stage::Serving => (status::Stage::Serving, None),
            Stage::Draining(since) => (status::Stage::Draining, Some(since)),
            Stage::Ending(since) => (status::Stage::Ending, Some(since)),
            Stage::Killed(since) => (status::Stage::Killed, Some(since)),
        };
        status::Generation {
            generation: generation.ordinal,
            stage,
            stage_seconds: since.map(|since| since.elapsed().as_secs_f64()),
            prototype: generation.prototype.as_ref().map(|prototype| prototype.pid),
            opcache: opcache(&generation.lanes),
            crashes: generation.last_crash.as_ref().map(|(last, at)| status::Crashes {
                count: generation.crashes,
                last: last.clone(),
                seconds: at.elapsed().as_secs_f64(),
            }),
            lanes: generation.lanes.iter().map(|lane| self.status_of_lane(lane)).collect(),
        }
    }

    fn status_of_lane(&self, lane: &Lane) -> status::Lane {
        let slab = lane.mailbox.as_ref().map(|mailbox| &mailbox.slab);
        status::Lane {
            script: lane.entry.clone(),
            mode: match (&lane.entry, lane.isolation) {
                (None, _) => Mode::Classic,
                (Some(_), _) if lane.prefers_classic() => Mode::Classic,
                (Some(_), Isolation::WorkerMode) => Mode::Worker,
                (Some(_), _) => Mode::Snapshot,
            },
            state: match &lane.template {
                _ if slab.is_some_and(|slab| !slab.is_intact()) => LaneState::Damaged,
                _ if lane.entry.is_none() || lane.prefers_classic() => LaneState::Up,
                Some(template) if template.child.ready => LaneState::Up,
                _ if lane.has_failed => LaneState::Failed,
                _ => LaneState::Booting,
            },
            outdated: lane.is_outdated.then_some(true),
            template: lane.template.as_ref().map(|template| template.child.pid),
            waiting: slab.map(waiting),
            recycles: slab.map(recycles),
            workers: slab.map(|slab| self.workers_of(lane, slab)),
        }
    }

    fn workers_of(&self, lane: &Lane, slab: &Slab) -> Vec<status::Worker> {
        let slots = lane.mailbox.iter().flat_map(|mailbox| mailbox.slots.iter().enumerate());
        let live = slots.filter_map(|(number, slot)| match slot {
            Slot::Live(pid) => Some((number, *pid)),
            _ => None,
        });
        live.filter_map(|(number, pid)| Some(self.worker(number, pid, slab.slot(number)?, slab))).collect()
    }

    /// Seconds in each state so far, of all workers that have had the slot.
    fn spent(&self, line: &Line) -> BTreeMap<String, Option<f64>> {
        let states = line.spent.iter().enumerate().skip(Activity::Starting as usize);
        let word = |state: usize| Activity::word_of(state as u32).to_owned();
        states.map(|(state, count)| (word(state), self.rate.seconds(count.load(Ordering::Relaxed)))).collect()
    }

    fn worker(&self, slot: usize, pid: i32, line: &Line, slab: &Slab) -> status::Worker {
        let activity = line.activity.load(Ordering::Relaxed);
        let has_request = Activity::has_request(activity);
        let request = has_request.then(|| request_in(slab, line.exchange.load(Ordering::Relaxed))).flatten();
        let usage = sys::usage(pid);
        status::Worker {
            slot,
            pid,
            state: Activity::word_of(activity).to_owned(),
            state_seconds: self.rate.since(line.since.load(Ordering::Relaxed)).map(|time| time.as_secs_f64()),
            request: request.map(|shown| shown.request),
            requests: plausible(&line.requests),
            spent_seconds: self.spent(line),
            rewinds: status::Rewinds {
                fast: plausible(&line.fast_rewinds),
                scanned: plausible(&line.scanned_rewinds),
                pages: plausible(&line.pages),
            },
            kept_connections: Some(line.kept_connections.load(Ordering::Relaxed)).filter(|count| *count <= MOST_KEPT),
            cpu_seconds: usage.map(|usage| usage.processor.as_secs_f64()),
            memory_kib: usage.map(|usage| usage.private_kib),
        }
    }
}

/// What was seen last: each lane has what its own workers saw. Nothing, if one of the numbers cannot be true.
fn opcache(lanes: &[Lane]) -> Option<status::Opcache> {
    let seen = lanes.iter().filter_map(|lane| {
        let words = lane.mailbox.as_ref()?.slab.opcache();
        let number = |what: Opcache| plausible(&words[what as usize]);
        let looks = number(Opcache::Looks).filter(|looks| *looks > 0)?;
        let opcache = status::Opcache {
            used: number(Opcache::Used)?,
            wasted: number(Opcache::Wasted)?,
            memory: number(Opcache::Memory)?,
            strings: number(Opcache::Strings)?,
            strings_memory: number(Opcache::StringsMemory)?,
            scripts: number(Opcache::Scripts)?,
            keys: number(Opcache::Keys)?,
            most_keys: number(Opcache::MostKeys)?,
        };
        Some((looks, opcache))
    });
    seen.max_by_key(|(looks, _)| *looks).map(|(_, opcache)| opcache)
}

fn waiting(slab: &Slab) -> Option<u32> {
    let waiting = slab.queue().waiting();
    Some(waiting).filter(|waiting| *waiting < slab.geometry().queue as usize).map(|waiting| waiting as u32)
}

fn recycles(slab: &Slab) -> BTreeMap<String, Option<u64>> {
    let counts = Recycle::ALL.iter().zip(slab.recycles());
    counts.map(|(why, count)| (why.word().to_owned(), plausible(count))).collect()
}
