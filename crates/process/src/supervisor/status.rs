//! What `reprise status` shows: the scoreboard that workers keep in their slabs, with what the system says of them. Words
//! and numbers from a slab are the workers' own: they are shown, nothing follows from them here. What cannot be true is
//! shown as unknown (`null`).

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use wire::atomics::Ordering;
use wire::control::Isolation;
use wire::layout::{Activity, Recycle, Slot as Line, plausible};
use wire::slab::Slab;
use wire::sys::ticks;

use super::Supervisor;
use super::child::Front;
use super::generation::{Generation, Stage};
use super::lane::Lane;
use super::trace::request_in;
use crate::plan::Slot;
use crate::sys;

/// The rate of [`ticks`], found out over the life of the supervisor.
pub(super) struct Rate {
    began: Instant,
    first: u64,
}

impl Rate {
    pub(super) fn begin() -> Rate {
        Rate { began: Instant::now(), first: ticks() }
    }

    /// So many ticks as time; `None` if that is more than has passed.
    fn seconds(&self, count: u64) -> Option<f64> {
        let passed = ticks().saturating_sub(self.first);
        (count <= passed).then(|| count as f64 / (passed as f64 / self.began.elapsed().as_secs_f64()))
    }

    /// How long ago a clock showed that; `None` if it makes no sense.
    pub(super) fn since(&self, then: u64) -> Option<Duration> {
        let (now, seconds) = (ticks(), self.began.elapsed().as_secs_f64());
        let ticks_of = |from: u64| now.checked_sub(from).map(|ticks| ticks as f64);
        let ago = ticks_of(then)? / (ticks_of(self.first)? / seconds);
        Duration::try_from_secs_f64(ago).ok().filter(|ago| *ago < Duration::from_secs(86400 * 365))
    }
}

impl Supervisor {
    /// All of it, as JSON.
    pub(super) fn status(&self) -> Value {
        let of_child = |child: &Front| json!({ "pid": child.pid, "seconds": child.since.elapsed().as_secs_f64() });
        let mut applications = Map::new();
        for number in self.generations.ids() {
            let generation = &self.generations[number];
            let list = applications.entry(generation.application.name.clone()).or_insert(json!([]));
            if let Value::Array(list) = list {
                list.push(self.status_of(number, generation));
            }
        }
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "seconds": self.began.elapsed().as_secs_f64(),
            "state": if self.announced { self.shutdown.stage().word() } else { "starting" },
            "front": self.front.child().map(of_child),
            "applications": applications,
        })
    }

    fn status_of(&self, number: usize, generation: &Generation) -> Value {
        let (stage, since) = match generation.stage {
            Stage::Booting => ("booting", None),
            Stage::Serving => ("serving", None),
            Stage::Draining(since) => ("draining", Some(since)),
            Stage::Ending(since) => ("ending", Some(since)),
            Stage::Killed(since) => ("killed", Some(since)),
        };
        json!({
            "generation": generation.ordinal,
            "stage": stage,
            "stage_seconds": since.map(|since| since.elapsed().as_secs_f64()),
            "prototype": generation.prototype.as_ref().map(|prototype| prototype.pid),
            "lanes": (0..generation.lanes.len()).map(|lane| self.status_of_lane(number, lane)).collect::<Vec<_>>(),
        })
    }

    fn status_of_lane(&self, number: usize, lane: usize) -> Value {
        let of_lane = &self.generations[number].lanes[lane];
        let template = of_lane.template.as_ref();
        let mode = match (&of_lane.entry, of_lane.isolation) {
            (None, _) => "classic",
            (Some(_), Isolation::Loop) => "worker",
            (Some(_), _) => "snapshot",
        };
        let state = match template {
            _ if of_lane.entry.is_none() => "up",
            Some(template) if template.child.ready => "up",
            _ if of_lane.has_failed => "failed",
            _ => "booting",
        };
        let mut value = json!({
            "script": of_lane.entry,
            "mode": mode,
            "state": state,
            "template": template.map(|template| template.child.pid),
        });
        if let Some(mailbox) = &of_lane.mailbox {
            let slab = &mailbox.slab;
            let recycles = Recycle::ALL.iter().zip(slab.recycles());
            let waiting = slab.queue().waiting();
            value["waiting"] = Some(waiting).filter(|waiting| *waiting < slab.geometry().queue as usize).into();
            if !slab.is_intact() {
                value["state"] = "damaged".into();
            }
            value["recycles"] = recycles
                .map(|(why, count)| (why.word().to_owned(), plausible(count).into()))
                .collect::<Map<_, _>>()
                .into();
            value["workers"] = self.workers_of(of_lane, slab).into();
        }
        value
    }

    fn workers_of(&self, lane: &Lane, slab: &Slab) -> Vec<Value> {
        let slots = lane.mailbox.iter().flat_map(|mailbox| mailbox.slots.iter().enumerate());
        let live = slots.filter_map(|(number, slot)| match slot {
            Slot::Live(pid) => Some((number, *pid)),
            _ => None,
        });
        live.filter_map(|(number, pid)| Some(self.worker(number, pid, slab.slot(number)?, slab))).collect()
    }

    /// Seconds in each state so far, of all workers that have had the slot.
    fn spent(&self, line: &Line) -> Map<String, Value> {
        let seconds = |(state, count): (usize, &wire::atomics::AtomicU64)| {
            (Activity::word_of(state as u32).to_owned(), self.rate.seconds(count.load(Ordering::Relaxed)).into())
        };
        line.spent.iter().enumerate().skip(Activity::Starting as usize).map(seconds).collect()
    }

    fn worker(&self, number: usize, pid: i32, line: &Line, slab: &Slab) -> Value {
        let activity = line.activity.load(Ordering::Relaxed);
        let has_request = Activity::has_request(activity);
        let request = has_request.then(|| request_in(slab, line.exchange.load(Ordering::Relaxed))).flatten();
        let usage = sys::usage(pid);
        json!({
            "slot": number,
            "pid": pid,
            "state": Activity::word_of(activity),
            "state_seconds": self.rate.since(line.since.load(Ordering::Relaxed)).map(|time| time.as_secs_f64()),
            "request": request.map(|shown| shown.request),
            "requests": plausible(&line.requests),
            "spent_seconds": self.spent(line),
            "rewinds": {
                "fast": plausible(&line.fast_rewinds),
                "scanned": plausible(&line.scanned_rewinds),
                "pages": plausible(&line.pages),
            },
            "cpu_seconds": usage.map(|usage| usage.processor.as_secs_f64()),
            "memory_kib": usage.map(|usage| usage.private_kib),
        })
    }
}
