//! What a lane counts for the status page.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ipc::head;
use ipc::layout::{Activity, HEAD_SIZE, RECYCLES, Slot, Usage, plausible};
use ipc::ring::Memory as _;
use ipc::sys::ticks;

use super::{Lane, lock};

/// The kernel's highest process id.
const MAX_PID: u32 = 1 << 22;

/// The highest value that a count has had.
#[derive(Clone, Copy, Default)]
pub(super) struct Most {
    waiting: usize,
    in_flight: usize,
    /// How often there came to be more requests than workers.
    saturated: u64,
    is_saturated: bool,
}

/// A lane at one moment, for the status page.
pub struct Count {
    /// The lane's key; empty: the lane of classic mode.
    pub key: String,
    /// Requests posted since the front began.
    pub accepted: u64,
    /// Requests that wait for a worker.
    pub waiting: usize,
    /// The most that waited at once.
    pub most_waiting: usize,
    /// The most requests at once that had a worker.
    pub most_active: usize,
    /// How often there came to be more requests than workers.
    pub saturated: u64,
    /// Ended workers by reason, as the workers say.
    pub recycles: [u64; RECYCLES],
    /// Fast and scanned rewinds of living workers, as the workers say.
    pub rewinds: [u64; 2],
    /// Connections to other servers that living workers keep open, as the workers say.
    pub kept_connections: u64,
    /// Requests that took longer than `slow_timeout`.
    pub slow: u64,
    /// The most memory that PHP had for a request, in KiB, as the workers say.
    pub peak_kib: u32,
    /// Each worker, as it describes itself.
    pub workers: Vec<Worker>,
}

/// A worker, as it describes itself.
pub struct Worker {
    /// Its process id.
    pub pid: u32,
    /// [`ipc::layout::Activity`].
    pub activity: u32,
    /// Requests it has taken.
    pub requests: u64,
    /// Second since 1970 in which it began.
    pub began: u64,
    /// Duration of the last request that it finished.
    pub last: Duration,
    /// What that request has used.
    pub used: Usage,
}

/// The request that a worker runs. The worker says which exchange that is, and may have written to it.
pub struct Running {
    /// The method, such as GET.
    pub method: String,
    /// The target, with the query.
    pub target: String,
    /// The Content-Length that the client named; 0: none.
    pub content_length: u64,
    /// The script's path in the file system.
    pub script: String,
    /// The user name of the client's Basic authentication; empty: none.
    pub user: String,
    /// Time since the front has the request.
    pub duration: Duration,
}

/// Bytes of a text that are shown.
const SHOWN: usize = 2048;

impl Most {
    pub(super) fn note(&mut self, in_flight: usize, waiting: usize, workers: usize) {
        self.in_flight = self.in_flight.max(in_flight);
        self.waiting = self.waiting.max(waiting);
        let is_saturated = in_flight > workers;
        self.saturated += u64::from(is_saturated && !self.is_saturated);
        self.is_saturated = is_saturated;
    }
}

impl Lane {
    /// The requests that workers run now, by process.
    pub fn running(&self) -> HashMap<u32, Running> {
        let slots = (0..self.slab.geometry().slots as usize).filter_map(|number| self.slab.slot(number));
        let busy = slots.filter(|slot| Activity::has_request(slot.activity.load(Ordering::Relaxed)));
        let of = |slot: &Slot| {
            let running = self.running_in(slot.exchange.load(Ordering::Relaxed))?;
            Some((slot.pid.load(Ordering::Relaxed), running))
        };
        busy.filter_map(of).collect()
    }

    /// Workers may write to the head while this looks at it, so it is copied first.
    fn running_in(&self, exchange: u32) -> Option<Running> {
        let (since, head_size) = {
            let place = lock(self.calls.get(exchange as usize)?);
            let call = place.as_ref()?;
            (call.since, call.posting.head_size())
        };
        let mut bytes = vec![0; head_size.min(HEAD_SIZE)];
        self.slab.head(exchange).load(0, &mut bytes);
        let (method, target) = head::request_line(&bytes)?;
        let text = |name: &[u8]| head::variable(&bytes, name).map(printable).unwrap_or_default();
        Some(Running {
            method: printable(method),
            target: printable(target),
            content_length: text(b"CONTENT_LENGTH").parse().unwrap_or(0),
            script: text(b"SCRIPT_FILENAME"),
            user: head::variable(&bytes, b"HTTP_AUTHORIZATION").and_then(user).unwrap_or_default(),
            duration: since.elapsed(),
        })
    }

    /// The numbers for the status page.
    pub fn count(&self) -> Count {
        let desk = lock(&self.desk);
        let (accepted, most) = (desk.next_id, desk.most);
        drop(desk);
        // An impossible count is not shown, and adds nothing.
        let count = |counter: &AtomicU64| plausible(counter).unwrap_or(0);
        let elapsed = (self.began.elapsed(), ticks().saturating_sub(self.began_ticks));
        let worker = |slot: &Slot| Worker {
            pid: slot.pid.load(Ordering::Relaxed),
            activity: slot.activity.load(Ordering::Relaxed),
            requests: count(&slot.requests),
            began: count(&slot.began),
            last: time_of(slot.last_ticks.load(Ordering::Relaxed), elapsed),
            used: Usage {
                processor_us: slot.last_processor_us.load(Ordering::Relaxed),
                peak_kib: slot.last_peak_kib.load(Ordering::Relaxed),
            },
        };
        let slots_of = || (0..self.slab.geometry().slots as usize).filter_map(|number| self.slab.slot(number));
        let live = || slots_of().filter(|slot| slot.pid.load(Ordering::Relaxed) != 0);
        let sum = |of: fn(&Slot) -> &AtomicU64| live().map(|slot| count(of(slot))).fold(0, u64::wrapping_add);
        Count {
            recycles: self.slab.recycles().each_ref().map(count),
            rewinds: [sum(|slot| &slot.fast_rewinds), sum(|slot| &slot.scanned_rewinds)],
            kept_connections: live().map(|slot| kept(slot.kept_connections.load(Ordering::Relaxed))).sum(),
            key: self.key.clone(),
            accepted,
            waiting: self.slab.queue().waiting(),
            most_waiting: most.waiting,
            most_active: most.in_flight.min(self.max_workers),
            saturated: most.saturated,
            slow: self.slow.load(Ordering::Relaxed),
            peak_kib: self.peak_kib.load(Ordering::Relaxed),
            workers: slots_of().map(worker).filter(|worker| (1..=MAX_PID).contains(&worker.pid)).collect(),
        }
    }
}

/// No worker keeps more connections; what its slab says may be anything.
const MOST_KEPT: u32 = 64;

fn kept(said: u32) -> u64 {
    if said <= MOST_KEPT { said.into() } else { 0 }
}

/// Both clocks run evenly, so the ratio of part and whole is the same by either clock. A part is not longer than the whole.
fn time_of(part: u64, (whole, ticks): (Duration, u64)) -> Duration {
    whole.mul_f64((part as f64 / ticks.max(1) as f64).min(1.0))
}

/// The name in an Authorization header, as PHP takes it.
fn user(authorization: &[u8]) -> Option<String> {
    let (scheme, credentials) = authorization.split_at_checked(6)?;
    let decoded = STANDARD.decode(credentials.trim_ascii()).ok().filter(|_| scheme.eq_ignore_ascii_case(b"Basic "))?;
    let end = decoded.iter().position(|&byte| byte == b':')?;
    Some(printable(&decoded[..end]))
}

fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]).replace(char::is_control, "?")
}
