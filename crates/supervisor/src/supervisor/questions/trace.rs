//! Traces: where workers are in their PHP code, if their request is slow or somebody asks.
//!
//! The forker reads a worker's frames while the worker runs ([`ToForker::Trace`]). The supervisor has neither PHP nor the right to.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use ipc::atomics::Ordering;
use ipc::control::ToForker;
use ipc::head;
use ipc::layout::{Activity, HEAD_SIZE};
use ipc::ring::Memory;
use ipc::slab::Slab;

use crate::lanes::generation::GenerationId;
use crate::logs::own::log;
use crate::peers::boot;
use crate::peers::channel::send;
use crate::peers::control_socket::Client;
use crate::plan::Slot;
use crate::supervisor::Supervisor;

/// Bytes of a request's target, and of a header, that are shown.
const SHOWN: usize = 512;
/// Bytes of a trace.
const MAX_TRACE: usize = 32 * 1024;
/// How long a trace is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why a worker is traced.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Its request is slow: what the log says of that.
    Slow(String),
    /// A client of the control socket has asked.
    Asked(Client),
}

/// A lane, by its generation and its index there.
type Place = (GenerationId, usize);

/// A trace that is under way.
struct Trace {
    pid: i32,
    /// Whose forker was asked.
    of: Place,
    began: Instant,
    why: Why,
}

/// The traces that are under way.
#[derive(Default)]
pub(crate) struct Traces {
    list: Vec<Trace>,
}

impl Traces {
    /// A forker was asked for a trace of a worker.
    fn asked(&mut self, pid: i32, of: Place, why: Why, now: Instant) {
        self.list.push(Trace { pid, of, began: now, why });
    }

    /// A forker has sent one. Returns why it was asked for; nothing if it was not.
    fn came(&mut self, pid: i32, of: Place) -> Option<Why> {
        let at = self.list.iter().position(|one| one.of == of && one.pid == pid)?;
        Some(self.list.remove(at).why)
    }

    /// Those that no forker will send any more.
    fn overdue(&mut self, now: Instant) -> Vec<Why> {
        let all = std::mem::take(&mut self.list).into_iter();
        let is_overdue = |one: &Trace| now.saturating_duration_since(one.began) > PATIENCE;
        let (overdue, rest): (Vec<Trace>, Vec<Trace>) = all.partition(is_overdue);
        self.list = rest;
        overdue.into_iter().map(|one| one.why).collect()
    }
}

/// A worker's request, for people, by what the worker's line and its exchange say.
pub(crate) struct Shown {
    /// Method and target.
    pub(crate) request: String,
    head: Vec<u8>,
}

/// The request in an exchange.
pub(crate) fn request_in(slab: &Slab, exchange: u32) -> Option<Shown> {
    if exchange >= slab.geometry().exchanges {
        return None;
    }
    let mut bytes = vec![0; HEAD_SIZE];
    slab.head(exchange).load(0, &mut bytes);
    let (method, target) = head::request_line(&bytes)?;
    // Text that no front can have written is not shown.
    let is_method = !method.is_empty() && method.iter().all(|byte| byte.is_ascii_graphic());
    if !is_method || target.iter().any(|byte| *byte <= b' ' || *byte == 0x7f) {
        return None;
    }
    let request = format!("{} {}", printable(method), printable(target));
    Some(Shown { request, head: bytes })
}

fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]).replace(char::is_control, "?")
}

impl Supervisor {
    /// The request that a worker has, by what the worker itself has written.
    pub(crate) fn request_of(&self, id: GenerationId, lane: usize, slot: u32) -> Option<Shown> {
        let mailbox = self.generations.lane(id, lane)?.mailbox.as_ref()?;
        let line = mailbox.slab.slot(slot as usize)?;
        let has_one = Activity::has_request(line.activity.load(Ordering::Relaxed));
        has_one.then(|| request_in(&mailbox.slab, line.exchange.load(Ordering::Relaxed))).flatten()
    }

    /// A request runs for longer than `slow_timeout`.
    pub(crate) fn request_is_slow(&mut self, id: GenerationId, lane: usize, slot: u32, pid: i32) {
        let Some(shown) = self.request_of(id, lane, slot) else { return };
        let Some(application) = self.generations.get(id).map(|one| one.application.clone()) else { return };
        let mut text = format!("slow request of application '{}': {}", application.name, shown.request);
        text.extend(self.narrow_lane(id, lane).map(|key| format!(", lane {key}")));
        for name in &application.slow_headers {
            let variable = format!("HTTP_{}", name.to_ascii_uppercase().replace('-', "_"));
            if let Some(value) = head::variable(&shown.head, variable.as_bytes()) {
                text.push_str(&format!(", {name}: {:?}", printable(value)));
            }
        }
        let after = application.slow_timeout.as_secs_f64();
        text.push_str(&format!(", running for more than {after} s in worker {pid}"));
        self.trace(id, lane, pid, Why::Slow(text));
    }

    /// Somebody asks where a worker is.
    pub(crate) fn trace_for(&mut self, pid: i32, client: Client) {
        let found = self.all_lanes().into_iter().find(|&(id, lane)| {
            let mailbox = self.generations.lane(id, lane).and_then(|lane| lane.mailbox.as_ref());
            mailbox.is_some_and(|mailbox| mailbox.slots.contains(&Slot::Live(pid)))
        });
        match found {
            Some((id, lane)) => self.trace(id, lane, pid, Why::Asked(client)),
            None => self.respond(vec![client], Err(&format!("process {pid} is no worker of this server"))),
        }
    }

    fn trace(&mut self, id: GenerationId, lane: usize, pid: i32, why: Why) {
        match self.generations.get(id).and_then(|generation| generation.forker(lane)) {
            Some(forker) => send(&forker.channel, &ToForker::Trace { pid }, &[]),
            // The forker has died: no process can read the worker's frames.
            None => return self.not_traced(why),
        }
        self.traces.asked(pid, (id, lane), why, Instant::now());
    }

    /// A forker has read where a worker of its own is.
    pub(crate) fn traced(&mut self, of: (GenerationId, usize), pid: i32, attached: &[OwnedFd]) {
        let Some(why) = self.traces.came(pid, of) else { return };
        let text = attached.first().and_then(|file| boot::read(file, MAX_TRACE).ok()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).replace(|one: char| one.is_control() && one != '\n', "?");
        match why {
            Why::Slow(what) => log("warning", format_args!("{what}\n{}", text.trim_end())),
            Why::Asked(client) => {
                let lane = self.narrow_lane(of.0, of.1).map_or(String::new(), |key| format!("lane {key}\n"));
                self.respond(vec![client], Ok(&format!("{lane}{text}")));
            }
        }
    }

    /// The key of a lane that is for one host, which the target of a request does not show.
    fn narrow_lane(&self, id: GenerationId, lane: usize) -> Option<&str> {
        let of_lane = self.generations.lane(id, lane)?;
        of_lane.key()?.origin?;
        of_lane.entry.as_deref()
    }

    /// Gives up on forkers that do not answer.
    pub(crate) fn end_overdue_traces(&mut self) {
        self.traces.overdue(Instant::now()).into_iter().for_each(|why| self.not_traced(why));
    }

    fn not_traced(&mut self, why: Why) {
        match why {
            Why::Slow(what) => log("warning", format_args!("{what}; its PHP stack could not be read")),
            Why::Asked(client) => self.respond(vec![client], Err("its PHP stack could not be read")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_for_whom_it_was_asked_and_comes_once_or_is_overdue() {
        let (mut traces, now) = (Traces::default(), Instant::now());
        traces.asked(5, (0, 1), Why::Asked(7), now);
        traces.asked(5, (0, 1), Why::Asked(8), now + PATIENCE);
        traces.asked(6, (0, 2), Why::Slow("GET /".to_owned()), now);
        // A forker speaks for its own workers.
        assert_eq!(traces.came(6, (0, 1)), None);
        assert_eq!(traces.came(5, (0, 1)), Some(Why::Asked(7)));
        assert_eq!(traces.overdue(now + PATIENCE), []);
        let later = now + PATIENCE + Duration::from_millis(1);
        assert_eq!(traces.overdue(later), [Why::Slow("GET /".to_owned())]);
        assert_eq!(traces.came(6, (0, 2)), None);
        assert_eq!(traces.came(5, (0, 1)), Some(Why::Asked(8)));
    }
}
