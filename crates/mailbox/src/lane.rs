//! The mailbox of a lane: requests are posted to its workers here, and end here, in one of several ways.
//!
//! A request that is posted is a [`Call`], kept here in private memory under the number of its exchange, until exactly one
//! of these happened to its exchange: done and read, withdrawn, or its worker reaped. Only then is the exchange zeroed and
//! free. The task that waits for the response holds a [`Ticket`] (see [`ticket`]). If it drops the ticket early, the call
//! is abandoned.
//!
//! Lock order: desk, then call. Both are held for a few hundred instructions and never across an await.

mod beside_queue;
mod comparison;
mod count;
mod ends;
mod purging;
mod report;
mod ticket;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant;

use ipc::control::{FromFront, LaneId, LaneOffer, RequestId, RunningRequest};
use ipc::front::{self, Posting, Progress};
use ipc::key::{Key, Origin};
use ipc::layout::{Phase, Usage};
use ipc::slab::Slab;
use ipc::sys::ticks;

use crate::bodies::Bodies;
use inbound::connection::Connection;
use inbound::control::Link;
use routing::refusal::Refusal;
use routing::settings::{Application, RequestLimits};

use crate::durations::Durations;

use beside_queue::Besides;
use comparison::Comparison;
use count::Most;
pub use count::{Count, Running, Worker};
use purging::Purging;
use report::Reports;
pub use ticket::{CHUNK, Received, RequestBodySender, Ticket, Withdrawal};

/// After this many posted requests workers are woken even if the thread has more to do: some 60 µs of its time.
const BATCH: usize = 8;

/// Exchanges whose news a thread looks at in one turn. A worker can claim that all of them have some, again and again.
const TURN: usize = 256;

/// Time between two messages that a lane is busy.
const BUSY_MS: u64 = 20;

/// One lane of one application, for one epoch of the front.
pub struct Lane {
    id: LaneId,
    /// The lane's [`Key`] as text; empty: classic mode.
    key: String,
    /// The script of the key.
    script: String,
    /// The scheme (whether it is https) and the host of the key; `None`: any.
    origin: Option<(bool, String)>,
    /// Whether its template lives, or it needs none.
    is_up: AtomicBool,
    /// Whether it is given up: nobody will serve what waits.
    is_given_up: AtomicBool,
    slab: Slab,
    link: Arc<dyn Link>,
    max_workers: usize,
    /// Whether the number of workers changes with the load.
    is_elastic: bool,
    slow_ms: u64,
    /// Requests that took longer than `slow_timeout`.
    slow: AtomicU64,
    /// The most memory that PHP had for a request, in KiB, as the workers say.
    peak_kib: AtomicU32,
    began: Instant,
    /// [`ticks`] at that moment.
    began_ticks: u64,
    last_busy_ms: AtomicU64,
    /// How long bodies of requests may be.
    pub bodies: Bodies,
    in_flight: AtomicUsize,
    besides: Besides,
    comparison: Comparison,
    /// Durations of requests, from the head to the end of the response.
    pub durations: Durations,
    reports: Reports,
    purging: Purging,
    desk: Mutex<Desk>,
    calls: Box<[Mutex<Option<Call>>]>,
    /// For each front thread, what it has here.
    doors: Box<[Door]>,
}

/// What one front thread has in a lane.
#[derive(Default)]
struct Door {
    /// Requests posted since it last woke a worker.
    unannounced: AtomicUsize,
    /// Exchanges that it holds.
    held: AtomicUsize,
    /// Whether it looks for news here. Used by this thread alone.
    is_followed: AtomicBool,
}

/// What producers share.
struct Desk {
    tail: u64,
    /// Free exchanges of each front thread. The last used is on top, because its memory is in the caches.
    free: Vec<Vec<u32>>,
    sequences: Vec<u32>,
    /// Number of the last request posted.
    next_id: u64,
    most: Most,
}

/// An exchange for a request that is not posted yet.
struct Reserved {
    exchange: u32,
    sequence: u32,
    id: u64,
}

struct Call {
    id: u64,
    posting: Posting,
    since: Instant,
    /// [`ticks`] when the request was posted.
    posted: u64,
    entered: Option<Instant>,
    limits: RequestLimits,
    /// Whether PHP was told that the request ran over its soft limit.
    is_told: bool,
    /// Whether the supervisor was told that the request is slow.
    is_slow: bool,
    /// The worker that was last seen with the request; for a call whose owner word has become impossible.
    slot: Option<u16>,
    response_waker: Option<Waker>,
    body_waker: Option<Waker>,
    /// The refusal that it gets in place of PHP's response.
    verdict: Option<Refusal>,
    /// Bytes of the response that are still to come, if its head has said how many.
    due: Option<u64>,
    /// Whether no worker has it or will have it.
    detached: bool,
    /// Whether it counts as ended though it is not ([`Lane::ends`]).
    is_ended: bool,
    /// Whether its worker was reaped, and may have written more than it published.
    bereft: bool,
    abandoned: bool,
    retried: bool,
    withdrawable: bool,
    compared: Option<Arc<Lane>>,
}

/// How a request is to be treated.
pub struct Order<'a> {
    /// When it came.
    pub since: Instant,
    /// The part of the body that has come, no more than fits into its ring.
    pub prefix: &'a [u8],
    /// Whether more of the body will be sent through a [`RequestBodySender`].
    pub has_more: bool,
    /// Its limits.
    pub limits: RequestLimits,
    /// Whether it need not run if its client leaves before a worker has it.
    pub withdrawable: bool,
    /// Whose it is.
    pub connection: &'a Arc<Connection>,
    /// Whether it is not posted if it would be the first one to wait for a worker.
    pub yields: bool,
    /// The lane that learns what the request takes in classic mode.
    pub compared: Option<Arc<Lane>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while a lock is held ends one connection. The data stays consistent, because it is changed in single steps.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Call {
    fn wake(&mut self) {
        for waker in [self.response_waker.take(), self.body_waker.take()].into_iter().flatten() {
            waker.wake();
        }
    }

    fn fail(&mut self, why: Refusal) {
        self.verdict.get_or_insert(why);
        self.wake();
    }
}

impl Lane {
    /// Makes a lane with a new slab, for requests of one key or (empty) for all.
    pub fn new(
        slab: Slab,
        offer: &LaneOffer,
        key: Option<Key<'_>>,
        application: &Application,
        link: Arc<dyn Link>,
    ) -> Lane {
        let geometry = slab.geometry();
        let per_door = geometry.per_door() as u32;
        let free = (0..geometry.doors).map(|door| (door * per_door..(door + 1) * per_door).rev().collect()).collect();
        Lane {
            id: offer.id,
            key: key.map(|key| key.to_string()).unwrap_or_default(),
            script: key.map(|key| key.script.to_owned()).unwrap_or_default(),
            origin: key.and_then(|key| key.origin).map(|origin| (origin.is_https, origin.host.to_owned())),
            is_up: AtomicBool::new(true),
            is_given_up: AtomicBool::new(false),
            link,
            max_workers: application.workers,
            is_elastic: application.is_elastic() || offer.shares_workers,
            slow_ms: application.slow_ms,
            slow: AtomicU64::new(0),
            peak_kib: AtomicU32::new(0),
            began: Instant::now(),
            began_ticks: ticks(),
            reports: Reports::new(application),
            purging: Purging::new(&application.name),
            last_busy_ms: AtomicU64::new(0),
            bodies: Bodies::new(&offer.bodies),
            in_flight: AtomicUsize::new(0),
            besides: Besides::default(),
            comparison: Comparison::default(),
            durations: Durations::default(),
            desk: Mutex::new(Desk {
                tail: 0,
                free,
                sequences: vec![0; geometry.exchanges as usize],
                next_id: 0,
                most: Most::default(),
            }),
            doors: (0..geometry.doors).map(|_| Door::default()).collect(),
            calls: (0..geometry.exchanges).map(|_| Mutex::new(None)).collect(),
            slab,
        }
    }

    /// Id of this lane, with the epoch of its slab.
    pub fn id(&self) -> LaneId {
        self.id
    }

    /// Id of its generation.
    pub fn generation(&self) -> u32 {
        self.id.generation
    }

    /// Whether it is the lane of classic mode.
    pub fn is_classic(&self) -> bool {
        self.id.lane == 0
    }

    /// Its [`Key`] as text; empty: classic mode.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whether it takes requests for that script, made to that origin, and is up.
    pub fn takes(&self, script: &str, by: Origin<'_>) -> bool {
        self.is_for(script, by) && self.is_up.load(Ordering::Relaxed)
    }

    fn is_for(&self, script: &str, by: Origin<'_>) -> bool {
        let is_origin = |(is_https, host): &(bool, String)| *is_https == by.is_https && host == by.host;
        self.script == script && self.origin.as_ref().is_none_or(is_origin)
    }

    /// Whether its requests run in classic mode so that it learns what they take there.
    pub fn is_compared_for(&self, script: &str, by: Origin<'_>) -> bool {
        self.is_compared() && self.is_for(script, by)
    }

    /// Says whether its template lives. If not, requests that are already posted wait for the next template.
    pub fn set_up(&self, is_up: bool) {
        if is_up {
            self.compare_no_more();
        }
        self.is_up.store(is_up, Ordering::Relaxed);
    }

    /// Requests posted and not finished, abandoned ones included.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Acquire)
    }

    /// Lets workers end: once the queue is empty, or after their request.
    pub fn end(&self, phase: Phase) {
        self.slab.set_phase(phase);
    }

    // ---- posting -----------------------------------------------------------------------------------------------

    /// Posts a request. `None`: the lane is full.
    pub fn post(self: &Arc<Lane>, door: usize, head: &[u8], order: Order<'_>) -> Option<Ticket> {
        let Reserved { exchange, sequence, id } = self.reserve(door, &order)?;
        // Nobody else knows of the exchange yet, so head and body are copied without a lock.
        let mut posting = Posting::new(&self.slab, exchange, sequence, head, order.prefix, order.has_more);
        let mut desk = lock(&self.desk);
        if self.is_given_up.load(Ordering::Relaxed) || !self.enqueue(&mut desk, &mut posting) {
            drop(desk);
            posting.withdraw(&self.slab);
            posting.release(&self.slab, true);
            self.ends();
            self.give_back(exchange);
            return None;
        }
        *lock(&self.calls[exchange as usize]) = Some(Call {
            id,
            posting,
            since: order.since,
            posted: ticks(),
            entered: None,
            limits: order.limits,
            is_told: false,
            is_slow: false,
            slot: None,
            response_waker: None,
            body_waker: None,
            verdict: None,
            due: None,
            detached: false,
            is_ended: false,
            bereft: false,
            abandoned: false,
            retried: false,
            withdrawable: order.withdrawable,
            compared: order.compared,
        });
        desk.most.note(self.in_flight(), self.slab.queue().waiting(), self.max_workers);
        drop(desk);
        self.announce(door);
        Some(Ticket { lane: self.clone(), exchange, id, connection: order.connection.clone() })
    }

    /// Takes a free exchange, unless so many requests are in flight already.
    fn reserve(&self, door: usize, order: &Order<'_>) -> Option<Reserved> {
        let mut desk = lock(&self.desk);
        if self.in_flight() >= order.limits.places || self.is_given_up.load(Ordering::Relaxed) {
            return None;
        }
        // Under the lock, so that not two requests find the last free worker.
        if order.yields && self.is_just_full() {
            return None;
        }
        let exchange = desk.free[door].pop()?;
        let sequence = desk.sequences[exchange as usize].wrapping_add(1);
        desk.sequences[exchange as usize] = sequence;
        desk.next_id += 1;
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        self.begins();
        self.doors[door].held.fetch_add(1, Ordering::Relaxed);
        Some(Reserved { exchange, sequence, id: desk.next_id })
    }

    /// The opposite of [`Lane::reserve`], for an exchange that is zeroed.
    fn give_back(&self, exchange: u32) {
        let door = exchange as usize / self.slab.geometry().per_door();
        lock(&self.desk).free[door].push(exchange);
        self.doors[door].held.fetch_sub(1, Ordering::Relaxed);
        self.in_flight.fetch_sub(1, Ordering::AcqRel);
    }

    /// Notes that a request was posted. Workers are woken when this thread has nothing else to do or has posted a batch: a
    /// wake-up costs as much as parsing a request, and a worker that is awake has most likely taken the request by then.
    fn announce(&self, door: usize) {
        if self.doors[door].unannounced.fetch_add(1, Ordering::Relaxed) + 1 >= BATCH {
            self.announce_all(door);
        }
    }

    /// Ends a batch: wakes as many workers as there are requests that nobody has taken.
    pub fn announce_all(&self, door: usize) {
        let unannounced = &self.doors[door].unannounced;
        if unannounced.load(Ordering::Relaxed) > 0 && unannounced.swap(0, Ordering::Relaxed) > 0 {
            for _ in 0..self.slab.queue().waiting() {
                if !front::wake_one(&self.slab) {
                    self.report_busy();
                    break;
                }
            }
        }
    }

    /// No worker could be woken: tells the supervisor, which may fork more. It also looks for itself, so the message is not
    /// sent each time.
    fn report_busy(&self) {
        if !self.is_elastic {
            return;
        }
        let now = self.began.elapsed().as_millis() as u64;
        let last = self.last_busy_ms.load(Ordering::Relaxed);
        let is_due = now >= last + BUSY_MS
            && self.last_busy_ms.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_due {
            self.link.send(&FromFront::Busy { lane: self.id });
        }
    }

    /// Queues a posting. The queue may be full of entries that were withdrawn, or a worker may have damaged its head. Then
    /// it is emptied, and the requests that still wait are queued anew. If a worker takes an entry meanwhile, the request
    /// still runs once, because the owner word decides.
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
                if call.posting.progress(&self.slab) == Ok(Progress::Queued) && !call.detached {
                    // The queue cannot be full: it has more cells than there are exchanges.
                    let _ = call.posting.enqueue(&self.slab, &mut desk.tail);
                }
            }
        }
        posting.enqueue(&self.slab, &mut desk.tail).is_ok()
    }

    /// Frees an exchange whose call is over. The caller has taken the call out, so nobody else can free it.
    fn free(&self, mut call: Call) {
        call.wake();
        let exchange = call.posting.exchange;
        let Usage { processor_us, peak_kib } = call.posting.usage(&self.slab);
        if let Some(own) = call.compared.take() {
            own.took_in_classic_mode(processor_us);
        }
        if peak_kib > self.peak_kib.load(Ordering::Relaxed) {
            self.peak_kib.fetch_max(peak_kib, Ordering::Relaxed);
        }
        call.posting.release(&self.slab, !call.bereft);
        if !call.is_ended {
            self.ends();
        }
        self.give_back(exchange);
    }

    // ---- news --------------------------------------------------------------------------------------------------

    /// From here on the thread of that door looks for news here. False: it does already.
    pub fn follow(&self, door: usize) -> bool {
        !self.doors[door].is_followed.swap(true, Ordering::Relaxed)
    }

    /// Whether the thread of that door still has to look for news here: it holds an exchange. If not, it has to call
    /// [`Lane::follow`] after it has posted the next request.
    pub fn is_followed(&self, door: usize) -> bool {
        let is_followed = self.doors[door].held.load(Ordering::Relaxed) > 0;
        if !is_followed {
            self.doors[door].is_followed.store(false, Ordering::Relaxed);
        }
        is_followed
    }

    /// Wakes the tasks of exchanges of this front thread that workers have marked, [`TURN`] of them at most.
    pub fn collect(&self, door: usize) {
        front::collect(&self.slab, door, TURN, |exchange| {
            let mut place = lock(&self.calls[exchange as usize]);
            let Some(call) = place.as_mut() else { return };
            call.wake();
            if call.abandoned && call.posting.progress(&self.slab) == Ok(Progress::Done) {
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

    /// Names a request and the slot of its worker to the supervisor.
    fn running_request(&self, slot: u16, posting: &Posting) -> RunningRequest {
        let request = RequestId { exchange: posting.exchange, sequence: posting.sequence };
        RunningRequest { lane: self.id, slot: slot.into(), request }
    }

    /// Asks the supervisor to kill a worker, provided that it still runs this request.
    fn kill(&self, slot: u16, posting: &Posting) {
        self.link.send(&FromFront::Kill { running: self.running_request(slot, posting) });
    }
}

#[cfg(test)]
mod tests;
