//! The mailbox of a lane: requests posted to its workers, and everything that can become of them.
//!
//! A request that is posted is a [`Call`], kept here in private memory under the number of its exchange, until exactly
//! one of these happened to its exchange: done and read, withdrawn, or its worker reaped. Only then is the exchange
//! zeroed and free. Whoever waits for the answer holds a [`Ticket`] (see [`ticket`]); one dropped early leaves an
//! abandoned call.
//!
//! Lock order: desk, then call. Both are held for a few hundred instructions and never across an await.

mod ticket;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use wire::control::{Kind, Message};
use wire::front::{self, Posting, Progress};
use wire::layout::{Phase, Slot};
use wire::queue;
use wire::slab::Slab;

use crate::control::Link;
use crate::refusal::Refusal;
use crate::settings::Application;

pub use ticket::{BodySlip, Received, Ticket};

/// Posted requests after which workers are woken though the thread has more to do; some 60 µs of its time.
const BATCH: usize = 8;

/// One lane of one application, for one epoch of the front.
pub struct Lane {
    application: u32,
    number: u32,
    epoch: u64,
    /// The script it belongs to; empty: any.
    script: String,
    /// Its template lives, or it needs none.
    is_up: AtomicBool,
    slab: Slab,
    link: Arc<dyn Link>,
    max_requests: usize,
    max_workers: usize,
    queue_timeout: Duration,
    request_timeout: Option<Duration>,
    body_limit: AtomicU64,
    in_flight: AtomicUsize,
    desk: Mutex<Desk>,
    calls: Box<[Mutex<Option<Call>>]>,
    /// Of each front thread: requests posted since it last woke a worker.
    unannounced: Box<[AtomicUsize]>,
}

/// What producers share.
struct Desk {
    tail: u64,
    /// Free exchanges of each front thread, the last used on top: its memory is warm.
    free: Vec<Vec<u32>>,
    sequences: Vec<u32>,
    /// Number of the last request posted.
    next_id: u64,
    most: Most,
}

/// The most there was of something.
#[derive(Clone, Copy, Default)]
struct Most {
    waiting: usize,
    in_flight: usize,
    /// How often there came to be more requests than workers.
    saturated: u64,
    is_saturated: bool,
}

/// A lane at one moment, for the status page.
pub struct Count {
    /// Its script; empty: classic.
    pub script: String,
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
    /// Process, [`wire::layout::Activity`] and requests of each worker: their word.
    pub workers: Vec<(u32, u32, u64)>,
}

struct Call {
    id: u64,
    posting: Posting,
    since: Instant,
    entered: Option<Instant>,
    /// The worker last seen with it; for a call whose owner word has become nonsense.
    slot: Option<u16>,
    answer_waker: Option<Waker>,
    body_waker: Option<Waker>,
    /// What to answer instead of PHP.
    fate: Option<Refusal>,
    /// No worker has it or will have it.
    unheld: bool,
    /// Its worker was reaped, and may have written more than it published.
    bereft: bool,
    abandoned: bool,
    retried: bool,
    withdrawable: bool,
}

/// How a request is to be treated.
pub struct Order<'a> {
    /// When it came.
    pub since: Instant,
    /// What has come of the body, no more than fits into its ring.
    pub prefix: &'a [u8],
    /// Whether more of it will be sent through a [`BodySlip`].
    pub has_more: bool,
    /// It need not run if its client leaves before a worker has it.
    pub withdrawable: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while a lock is held ends its connection; what it guards is changed in single steps.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Most {
    fn note(&mut self, in_flight: usize, waiting: usize, workers: usize) {
        self.in_flight = self.in_flight.max(in_flight);
        self.waiting = self.waiting.max(waiting);
        let is_saturated = in_flight > workers;
        self.saturated += u64::from(is_saturated && !self.is_saturated);
        self.is_saturated = is_saturated;
    }
}

impl Call {
    fn wake(&mut self) {
        for waker in [self.answer_waker.take(), self.body_waker.take()].into_iter().flatten() {
            waker.wake();
        }
    }

    fn fail(&mut self, why: Refusal) {
        self.fate.get_or_insert(why);
        self.wake();
    }
}

impl Lane {
    /// Takes over a freshly made slab, for that script alone or (empty) for all.
    pub fn new(slab: Slab, message: &Message, script: String, application: &Application, link: Arc<dyn Link>) -> Lane {
        let geometry = slab.geometry();
        let per_door = geometry.per_door() as u32;
        let free = (0..geometry.doors).map(|door| (door * per_door..(door + 1) * per_door).rev().collect()).collect();
        Lane {
            application: message.application,
            number: message.lane,
            epoch: message.epoch,
            script,
            is_up: AtomicBool::new(true),
            link,
            max_requests: application.max_requests,
            max_workers: application.workers,
            queue_timeout: Duration::from_millis(application.queue_timeout_ms),
            request_timeout: (application.request_timeout_ms > 0)
                .then(|| Duration::from_millis(application.request_timeout_ms)),
            body_limit: AtomicU64::new(message.limit),
            in_flight: AtomicUsize::new(0),
            desk: Mutex::new(Desk {
                tail: 0,
                free,
                sequences: vec![0; geometry.exchanges as usize],
                next_id: 0,
                most: Most::default(),
            }),
            unannounced: (0..geometry.doors).map(|_| AtomicUsize::new(0)).collect(),
            calls: (0..geometry.exchanges).map(|_| Mutex::new(None)).collect(),
            slab,
        }
    }

    /// Which epoch's slab this is.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether it runs whatever has no lane of its own.
    pub fn is_classic(&self) -> bool {
        self.number == 0
    }

    /// Whether requests for that script are its own, and served at the moment.
    pub fn takes(&self, script: &str) -> bool {
        self.script == script && self.is_up.load(Ordering::Relaxed)
    }

    /// Its template lives, or does not: then requests that are posted already wait for the next one.
    pub fn set_up(&self, is_up: bool) {
        self.is_up.store(is_up, Ordering::Relaxed);
    }

    /// Bytes of body PHP takes; 0: any number.
    pub fn body_limit(&self) -> u64 {
        self.body_limit.load(Ordering::Relaxed)
    }

    /// What a prototype that has just started says of that.
    pub fn set_body_limit(&self, limit: u64) {
        self.body_limit.store(limit, Ordering::Relaxed);
    }

    /// Requests posted and not finished, abandoned ones included.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Acquire)
    }

    /// What the status page wants to know.
    pub fn count(&self) -> Count {
        let desk = lock(&self.desk);
        let (accepted, most) = (desk.next_id, desk.most);
        drop(desk);
        let slots = (0..self.slab.geometry().slots as usize).filter_map(|number| self.slab.slot(number));
        let worker = |slot: &Slot| {
            let pid = slot.pid.load(Ordering::Relaxed);
            (pid, slot.activity.load(Ordering::Relaxed), slot.requests.load(Ordering::Relaxed))
        };
        Count {
            script: self.script.clone(),
            accepted,
            waiting: self.slab.queue().waiting(),
            most_waiting: most.waiting,
            most_active: most.in_flight.min(self.max_workers),
            saturated: most.saturated,
            workers: slots.map(worker).filter(|(pid, ..)| *pid != 0).collect(),
        }
    }

    /// Lets workers end: once the queue is empty, or after their request.
    pub fn end(&self, phase: Phase) {
        self.slab.set_phase(phase);
    }

    // ---- posting -----------------------------------------------------------------------------------------------

    /// Posts a request. `None`: every place is taken.
    pub fn post(self: &Arc<Lane>, door: usize, head: &[u8], order: Order<'_>) -> Option<Ticket> {
        if self.in_flight() >= self.max_requests {
            return None;
        }
        let mut desk = lock(&self.desk);
        let exchange = desk.free[door].pop()?;
        let sequence = desk.sequences[exchange as usize].wrapping_add(1);
        desk.sequences[exchange as usize] = sequence;
        desk.next_id += 1;
        let id = desk.next_id;
        let mut posting = Posting::new(&self.slab, exchange, sequence, head, order.prefix, order.has_more);
        if !self.enqueue(&mut desk, &mut posting) {
            posting.withdraw(&self.slab);
            posting.release(&self.slab, true);
            desk.free[door].push(exchange);
            return None;
        }
        *lock(&self.calls[exchange as usize]) = Some(Call {
            id,
            posting,
            since: order.since,
            entered: None,
            slot: None,
            answer_waker: None,
            body_waker: None,
            fate: None,
            unheld: false,
            bereft: false,
            abandoned: false,
            retried: false,
            withdrawable: order.withdrawable,
        });
        let in_flight = self.in_flight.fetch_add(1, Ordering::AcqRel) + 1;
        desk.most.note(in_flight, self.slab.queue().waiting(), self.max_workers);
        drop(desk);
        self.announce(door);
        Some(Ticket { lane: self.clone(), exchange, id })
    }

    /// Workers are woken when this thread has nothing else to do or has posted a batch: a wake-up costs as much as
    /// parsing a request, and a worker that is awake by then has most likely taken what was posted.
    fn announce(&self, door: usize) {
        if self.unannounced[door].fetch_add(1, Ordering::Relaxed) + 1 >= BATCH {
            self.announce_all(door);
        }
    }

    /// Ends a batch: wakes as many workers as there are requests that nobody has taken.
    pub fn announce_all(&self, door: usize) {
        if self.unannounced[door].swap(0, Ordering::Relaxed) > 0 {
            for _ in 0..self.slab.queue().waiting() {
                if !front::wake_one(&self.slab) {
                    break;
                }
            }
        }
    }

    /// Queues a posting. If the queue is full of entries that were withdrawn, or a worker has broken its head, it is
    /// emptied and what still waits is queued anew; an entry that a worker takes meanwhile counts once all the same, since
    /// the owner word decides.
    fn enqueue(&self, desk: &mut Desk, posting: &mut Posting) -> bool {
        if posting.enqueue(&self.slab, &mut desk.tail).is_ok() {
            return true;
        }
        self.slab.queue().head.store(desk.tail, Ordering::SeqCst);
        for (number, place) in self.calls.iter().enumerate() {
            if number == posting.exchange as usize {
                continue;
            }
            if let Some(call) = lock(place).as_mut() {
                if call.posting.progress(&self.slab) == Ok(Progress::Queued) && !call.unheld {
                    // Cannot be full: there are more cells than exchanges.
                    let _ = call.posting.enqueue(&self.slab, &mut desk.tail);
                }
            }
        }
        posting.enqueue(&self.slab, &mut desk.tail).is_ok()
    }

    /// Frees an exchange whose call is over. The caller has taken the call out, so nobody else can.
    fn free(&self, call: Call) {
        let exchange = call.posting.exchange;
        call.posting.release(&self.slab, !call.bereft);
        let door = exchange as usize / self.slab.geometry().per_door();
        lock(&self.desk).free[door].push(exchange);
        self.in_flight.fetch_sub(1, Ordering::AcqRel);
    }

    // ---- news --------------------------------------------------------------------------------------------------

    /// Wakes whoever waits for an exchange of this front thread that a worker has rung for.
    pub fn collect(&self, door: usize) {
        front::collect(&self.slab, door, |exchange| {
            let mut place = lock(&self.calls[exchange as usize]);
            let Some(call) = place.as_mut() else { return };
            if !call.abandoned {
                call.wake();
            } else if call.posting.progress(&self.slab) == Ok(Progress::Done) {
                let call = place.take();
                drop(place);
                call.into_iter().for_each(|call| self.free(call));
            }
        });
    }

    /// See [`front::may_sleep`].
    pub fn may_sleep(&self, door: usize) -> bool {
        front::may_sleep(&self.slab, door)
    }

    /// See [`front::awake`].
    pub fn awake(&self, door: usize) {
        front::awake(&self.slab, door);
    }

    /// A worker was reaped. What it had claimed but not entered is queued again, once; what it ran is lost; what it had
    /// taken from the queue without claiming is found. Then its slot is free.
    pub fn worker_died(&self, slot: u32) {
        let mut desk = lock(&self.desk);
        let mut orphans = Vec::new();
        for place in &self.calls {
            let mut place = lock(place);
            let Some(call) = place.as_mut() else { continue };
            if call.unheld {
                continue;
            }
            let progress = call.posting.progress(&self.slab);
            let is_its = match progress {
                Ok(Progress::Claimed(holder) | Progress::Running(holder)) => u32::from(holder) == slot,
                Ok(Progress::Queued) => {
                    // Unless it was claimed just now, by a worker that was only slow.
                    if call.posting.is_lost(&self.slab)
                        && !self.enqueue(&mut desk, &mut call.posting)
                        && call.posting.withdraw(&self.slab)
                    {
                        call.unheld = true;
                        call.fail(Refusal::QueueFull);
                    }
                    false
                }
                // Complete, but perhaps it died before it could say so.
                Ok(Progress::Done) => {
                    call.wake();
                    if call.abandoned {
                        orphans.extend(place.take());
                    }
                    false
                }
                Err(_) => call.slot.is_none_or(|seen| u32::from(seen) == slot),
            };
            if !is_its {
                continue;
            }
            let Some(call) = place.as_mut() else { continue };
            if matches!(progress, Ok(Progress::Claimed(_))) && !call.retried && call.fate.is_none() {
                call.retried = true;
                let exchange = call.posting.exchange as usize;
                let sequence = desk.sequences[exchange].wrapping_add(1);
                desk.sequences[exchange] = sequence;
                call.posting.offer_again(&self.slab, sequence);
                if self.enqueue(&mut desk, &mut call.posting) || !call.posting.withdraw(&self.slab) {
                    continue;
                }
            }
            call.unheld = true;
            call.bereft = true;
            call.fail(Refusal::WorkerDied);
            if call.abandoned {
                orphans.extend(place.take());
            }
        }
        drop(desk);
        orphans.into_iter().for_each(|call| self.free(call));
        front::forget_slot(&self.slab, slot as usize);
        front::wake_all(&self.slab);
        self.tell(Kind::SlotFree, slot);
    }

    fn message(&self, kind: Kind) -> Message {
        let (application, lane) = (self.application, self.number);
        Message { application, lane, epoch: self.epoch, ..Message::new(kind) }
    }

    fn tell(&self, kind: Kind, slot: u32) {
        self.link.send(&Message { slot, ..self.message(kind) });
    }

    /// Has a worker killed, provided that it still runs this very request.
    fn kill(&self, slot: u16, posting: &Posting) {
        let limit = queue::entry(posting.exchange, posting.sequence);
        self.link.send(&Message { slot: slot.into(), limit, ..self.message(Kind::Kill) });
    }

    /// Looks for requests of this front thread that waited or ran too long. Called a few times a second.
    pub fn sweep(&self, door: usize) {
        if self.in_flight() == 0 {
            return;
        }
        let now = Instant::now();
        let per_door = self.slab.geometry().per_door();
        for place in &self.calls[door * per_door..(door + 1) * per_door] {
            let mut place = lock(place);
            let Some(call) = place.as_mut() else { continue };
            match call.posting.progress(&self.slab) {
                Ok(Progress::Queued)
                    if now - call.since > self.queue_timeout && !call.unheld && call.posting.withdraw(&self.slab) =>
                {
                    call.unheld = true;
                    call.fail(Refusal::QueueTimeout);
                    if call.abandoned {
                        let call = place.take();
                        drop(place);
                        call.into_iter().for_each(|call| self.free(call));
                    }
                }
                Ok(Progress::Claimed(slot) | Progress::Running(slot)) => {
                    call.slot = Some(slot);
                    let entered = *call.entered.get_or_insert(now);
                    let over = self.request_timeout.is_some_and(|limit| now - entered > limit);
                    if over && call.fate != Some(Refusal::RequestTimeout) {
                        // The answer goes out when the worker is reaped: until then it may still write.
                        call.fate = Some(Refusal::RequestTimeout);
                        self.kill(slot, &call.posting);
                    }
                }
                Ok(Progress::Done) if call.abandoned => {
                    let call = place.take();
                    drop(place);
                    call.into_iter().for_each(|call| self.free(call));
                }
                Ok(Progress::Done) => call.wake(),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
