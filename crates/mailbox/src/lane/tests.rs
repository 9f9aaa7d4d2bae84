//! A lane with a worker in the same process.

use std::future::Future;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::task::{Context, Poll, Wake};

use ipc::control::{Bodies as Said, ToFront};
use ipc::layout::{Geometry, MAX_DOORS};
use ipc::owner::{Owner, State};
use ipc::worker::{Next, Worker};

use super::*;
use inbound::connection::{Nobody, Peer};

const LIMITS: RequestLimits =
    RequestLimits { places: 3, queue_ms: 60_000, soft_ms: 0, hard_ms: 60_000, memory_kib: 0, client_requests: 0 };

/// Remembers the messages to the supervisor.
#[derive(Default)]
struct Told(Mutex<Vec<FromFront>>);

impl Link for Told {
    fn send(&self, message: &FromFront) {
        lock(&self.0).push(*message);
    }
    fn send_with(&self, _: &FromFront, _: &[BorrowedFd<'_>]) {}
    fn receive(&self) -> std::io::Result<Option<(ToFront, Vec<OwnedFd>)>> {
        Ok(None)
    }
    fn descriptor(&self) -> BorrowedFd<'_> {
        unreachable!("these tests wait for nothing")
    }
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn lane() -> (Arc<Lane>, Worker, Arc<Told>) {
    let geometry = Geometry::new(4, 2, 1);
    let descriptor = ipc::slab::create(geometry).unwrap();
    let slab = Slab::map(descriptor, geometry).unwrap();
    let worker = Worker::attach(descriptor, geometry, 1, 42, [-1; MAX_DOORS]).unwrap();
    let application = Application {
        name: "test".into(),
        root: "/".into(),
        workers: 2,
        min_workers: 1,
        limits: LIMITS,
        ..Application::default()
    };
    let told = Arc::new(Told::default());
    let id = LaneId { generation: 0, lane: 0, epoch: 0 };
    let offer = LaneOffer { id, geometry, shares_workers: false, bodies: Said::default() };
    let lane = Lane::new(slab, &offer, None, &application, told.clone());
    (Arc::new(lane), worker, told)
}

fn connection() -> Arc<Connection> {
    Arc::new(Connection { peer: Arc::new(Peer::ourselves(None)), client: Box::new(Nobody) })
}

fn post(lane: &Arc<Lane>) -> Option<Ticket> {
    let connection = &connection();
    let order = Order {
        since: Instant::now(),
        prefix: b"",
        has_more: false,
        limits: LIMITS,
        withdrawable: true,
        connection,
        yields: false,
        compared: None,
    };
    lane.post(0, b"head", order)
}

fn poll(ticket: &Ticket, woken: &Arc<Woken>, bytes: &mut Vec<u8>) -> Poll<Result<bool, Refusal>> {
    let waker = Waker::from(woken.clone());
    ticket.poll_receive(&mut Context::from_waker(&waker), bytes, CHUNK).map_ok(|received| received.done)
}

/// The last instruction of a response is the ring of a bell; a worker may be killed before it.
#[test]
fn a_response_whose_worker_died_before_it_could_say_so_is_found() {
    let (lane, mut worker, told) = lane();
    let ticket = post(&lane).unwrap();
    assert_eq!(worker.claim_next(), Next::Request);
    assert!(worker.enter());
    worker.write(b"response").unwrap();
    worker.flush();
    let (woken, mut bytes) = (Arc::new(Woken::default()), Vec::new());
    assert_eq!(poll(&ticket, &woken, &mut bytes), Poll::Ready(Ok(false)));
    assert_eq!(poll(&ticket, &woken, &mut bytes), Poll::Pending);
    let word = &lane.slab.control(ticket.exchange).owner.0;
    word.store(Owner::pack(1, 1, State::Done), Ordering::SeqCst);
    lane.worker_died(1);
    assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    assert_eq!(poll(&ticket, &woken, &mut bytes), Poll::Ready(Ok(true)));
    assert_eq!(bytes, b"response");
    drop(ticket);
    assert_eq!(lane.in_flight(), 0);
    assert_eq!(*lock(&told.0), [FromFront::SlotFree { lane: lane.id(), slot: 1 }]);
}

#[test]
fn a_claimed_request_is_offered_once_more_and_no_more() {
    let (lane, mut worker, _) = lane();
    let ticket = post(&lane).unwrap();
    let (woken, mut bytes) = (Arc::new(Woken::default()), Vec::new());
    assert_eq!(worker.claim_next(), Next::Request);
    lane.worker_died(1);
    assert_eq!(poll(&ticket, &woken, &mut bytes), Poll::Pending);
    assert_eq!(worker.claim_next(), Next::Request);
    lane.worker_died(1);
    assert_eq!(poll(&ticket, &woken, &mut bytes), Poll::Ready(Err(Refusal::WorkerDied)));
    drop(ticket);
    assert_eq!(lane.in_flight(), 0);
}

#[test]
fn a_request_that_php_was_running_is_not_offered_again() {
    let (lane, mut worker, _) = lane();
    let ticket = post(&lane).unwrap();
    let (woken, mut bytes) = (Arc::new(Woken::default()), Vec::new());
    assert_eq!(worker.claim_next(), Next::Request);
    assert!(worker.enter());
    lane.worker_died(1);
    assert_eq!(poll(&ticket, &woken, &mut bytes), Poll::Ready(Err(Refusal::WorkerDied)));
    assert_eq!(worker.claim_next(), Next::Nothing);
}

#[test]
fn places_are_counted_and_withdrawn_ones_given_back() {
    let (lane, _worker, _) = lane();
    let tickets: Vec<_> = (0..3).map(|_| post(&lane).unwrap()).collect();
    assert!(post(&lane).is_none());
    drop(tickets);
    assert_eq!(lane.in_flight(), 0);
    // The entries are still queued; more requests are posted than the queue has cells.
    for _ in 0..1000 {
        assert!(post(&lane).is_some());
    }
}

#[test]
fn a_broken_queue_is_mended() {
    let (lane, mut worker, _) = lane();
    let _first = post(&lane).unwrap();
    lane.slab.queue().head.store(1 << 40, Ordering::SeqCst);
    let _second = post(&lane).unwrap();
    assert_eq!([worker.claim_next(), worker.claim_next()], [Next::Request, Next::Request]);
}

/// A request that yields waits beside the queue as long as each worker has a request and nobody else waits; it is told of either.
#[test]
fn who_yields_is_neither_the_first_to_wait_nor_overtaken() {
    let (lane, mut worker, _) = lane();
    let connection = &connection();
    let order = |yields| Order {
        since: Instant::now(),
        prefix: b"",
        has_more: false,
        limits: RequestLimits { places: 4, ..LIMITS },
        withdrawable: true,
        connection,
        yields,
        compared: None,
    };
    let yielding = || lane.post(0, b"head", order(true));
    let first = yielding().unwrap();
    let _second = yielding().unwrap();
    assert!(lane.is_just_full() && yielding().is_none(), "two workers have two requests");
    let (woken, beside) = (Arc::new(Woken::default()), lane.beside());
    let waker = Waker::from(woken.clone());
    let mut moved = Box::pin(beside.moved());
    let mut is_told = || moved.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
    assert!(!is_told());
    let third = lane.post(0, b"head", order(false)).unwrap();
    assert!(is_told() && !lane.is_just_full(), "somebody waits");
    let fourth = yielding().unwrap();
    assert!(third.withdraw() && fourth.withdrawal().withdraw());
    drop((third, fourth));
    assert!(lane.is_just_full());
    // PHP has ended, and the client has not read all: the worker is free when the front has looked.
    assert_eq!(worker.claim_next(), Next::Request);
    assert!(worker.enter());
    worker.write(b"response").unwrap();
    worker.flush();
    lane.slab.control(first.exchange).owner.0.store(Owner::pack(1, 1, State::Done), Ordering::SeqCst);
    lane.sweep(0);
    assert!(!lane.is_just_full() && lane.in_flight() == 2);
    drop(first);
    assert_eq!((lane.in_flight(), lane.is_just_full()), (1, false));
    assert!(yielding().is_some());
}
