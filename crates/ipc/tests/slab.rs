//! Both sides of a slab in one process.
#![cfg(not(loom))]

use ipc::atomics::Ordering;
use ipc::front::{self, Posting, Progress};
use ipc::layout::{BODY_RING, Geometry, MAX_DOORS, Phase, RESPONSE_RING};
use ipc::ring::{Corrupt, Memory};
use ipc::slab::{self, Slab};
use ipc::worker::{Gone, Next, Worker};

fn pair() -> (Slab, Worker) {
    let geometry = Geometry::new(4, 2, 1);
    let descriptor = slab::create(geometry).unwrap();
    let slab = Slab::map(descriptor, geometry).unwrap();
    let worker = Worker::attach(descriptor, geometry, 1, 42, [-1; MAX_DOORS]).unwrap();
    (slab, worker)
}

fn post(slab: &Slab, head: &[u8], tail: &mut u64) -> Posting {
    let mut posting = Posting::new(slab, 3, 7, head, b"", true);
    posting.enqueue(slab, tail).unwrap();
    front::wake_one(slab);
    posting
}

#[test]
fn a_request_goes_through_and_leaves_nothing_behind() {
    let (slab, mut worker) = pair();
    let mut posting = post(&slab, b"the head", &mut 0);
    assert_eq!(posting.progress(&slab), Ok(Progress::Queued));
    assert_eq!(worker.claim_next(), Next::Request);
    assert_eq!(posting.progress(&slab), Ok(Progress::Claimed(1)));
    let mut head = [0; 64];
    let size = worker.head(&mut head);
    assert_eq!(&head[..size], b"the head");
    assert!(worker.enter());
    assert!(!posting.withdraw(&slab));
    assert_eq!(posting.send_body(&slab, b"secret body"), Ok(11));
    posting.end_body(&slab);
    let mut body = [0; 64];
    assert_eq!(worker.read(&mut body), Ok(11));
    assert_eq!(worker.read(&mut body), Ok(0));
    worker.write(b"secret response").unwrap();
    assert_eq!(posting.receivable(&slab), Ok(0));
    worker.finish();
    assert_eq!(worker.write(b"more"), Err(Gone::NoRequest));
    let mut seen = vec![];
    front::collect(&slab, 0, 256, |exchange| seen.push(exchange));
    assert_eq!(seen, [3]);
    assert_eq!(posting.progress(&slab), Ok(Progress::Done));
    let mut response = vec![0; posting.receivable(&slab).unwrap()];
    posting.receive(&slab, &mut response);
    assert_eq!(response, b"secret response");
    posting.release(&slab, true);
    for memory in [slab.head(3), slab.body(3), slab.response(3)] {
        let mut all = vec![0xff; memory.size()];
        memory.load(0, &mut all);
        assert!(all.iter().all(|&byte| byte == 0));
    }
}

#[test]
fn a_body_larger_than_its_ring_is_sent_in_parts() {
    let (slab, mut worker) = pair();
    let mut posting = post(&slab, b"h", &mut 0);
    assert_eq!(worker.claim_next(), Next::Request);
    assert!(worker.enter());
    let sent = vec![9u8; BODY_RING + 10];
    assert_eq!(posting.send_body(&slab, &sent), Ok(BODY_RING));
    assert_eq!(posting.wait_for_room(&slab), Ok(false));
    let mut part = vec![0; 100];
    assert_eq!(worker.read(&mut part), Ok(100));
    let mut told = 0;
    front::collect(&slab, 0, 256, |_| told += 1);
    assert_eq!(told, 1, "the worker says that there is room");
    assert_eq!(posting.send_body(&slab, &sent[BODY_RING..]), Ok(10));
}

/// A worker can set any bit. The front takes some of them at a time, each once, and none that is no exchange of its thread.
#[test]
fn forged_news_is_taken_in_parts() {
    let (slab, _worker) = pair();
    let per_door = slab.geometry().per_door();
    let marks = slab.marks(0);
    marks.words.iter().for_each(|word| word.store(u64::MAX, Ordering::SeqCst));
    marks.summary.store(u64::MAX, Ordering::SeqCst);
    let mut seen = vec![];
    while seen.len() < per_door {
        let before = seen.len();
        front::collect(&slab, 0, 10, |exchange| seen.push(exchange));
        assert!((before + 1..=before + 10).contains(&seen.len()), "{} after {before}", seen.len());
        assert!(seen.len() == per_door || !front::may_sleep(&slab, 0), "the rest is not forgotten");
    }
    assert!(seen.into_iter().eq(0..per_door as u32));
    front::collect(&slab, 0, 10, |exchange| panic!("{exchange} again"));
    assert!(front::may_sleep(&slab, 0));
}

#[test]
fn the_front_believes_no_position() {
    let (slab, mut worker) = pair();
    let posting = post(&slab, b"h", &mut 0);
    assert_eq!(worker.claim_next(), Next::Request);
    let words = &slab.control(3).worker.0;
    words.response_tail.store(RESPONSE_RING as u64 + 1, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(posting.receivable(&slab), Err(Corrupt));
    words.body_head.store(1, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(posting.wait_for_room(&slab), Err(Corrupt));
    slab.control(3).owner.0.store(u64::MAX, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(posting.progress(&slab), Err(Corrupt));
}

#[test]
fn an_entry_taken_by_a_dead_worker_is_found() {
    let (slab, mut worker) = pair();
    let mut tail = 0;
    let mut posting = post(&slab, b"h", &mut tail);
    assert!(!posting.is_lost(&slab));
    assert!(slab.queue().pop().is_some());
    assert!(posting.is_lost(&slab));
    posting.enqueue(&slab, &mut tail).unwrap();
    assert_eq!(worker.claim_next(), Next::Request);
    assert!(!posting.is_lost(&slab));
}

#[test]
fn a_drained_lane_ends_its_workers_after_the_last_request() {
    let (slab, mut worker) = pair();
    post(&slab, b"h", &mut 0);
    slab.set_phase(Phase::Draining);
    assert_eq!(worker.claim_next(), Next::Request);
    assert!(worker.enter());
    worker.finish();
    assert_eq!(worker.claim_next(), Next::Drained);
}

#[test]
fn an_abort_reaches_a_writing_worker() {
    let (slab, mut worker) = pair();
    let posting = post(&slab, b"h", &mut 0);
    assert_eq!(worker.claim_next(), Next::Request);
    assert!(worker.enter());
    posting.abort(&slab);
    assert!(worker.is_unread());
    assert_eq!(worker.write(b"x"), Err(Gone::Aborted));
}

#[test]
fn whoever_is_done_first_ends() {
    let (slab, mut worker) = pair();
    let posting = post(&slab, b"the head", &mut 0);
    assert_eq!(worker.claim_next(), Next::Request);
    assert!(front::dismiss(&slab, 0, 1, std::iter::empty()));
    assert!(worker.enter());
    worker.finish();
    let mut next = Posting::new(&slab, 2, 7, b"another", b"", false);
    next.enqueue(&slab, &mut 1).unwrap();
    // It takes no further request, and no other worker has to end.
    assert_eq!(worker.claim_next(), Next::Drained);
    assert_eq!((posting.progress(&slab), next.progress(&slab)), (Ok(Progress::Done), Ok(Progress::Queued)));
    assert_eq!(slab.surplus().load(Ordering::SeqCst), 0);
    assert_eq!(slab.slot(1).unwrap().leaves.load(Ordering::SeqCst), 1);
    // Whatever is said by then.
    assert!(!front::dismiss(&slab, 1, 2, std::iter::empty()), "one has ended meanwhile");
    assert!(front::dismiss(&slab, 0, 1, std::iter::once(1)));
    assert_eq!(worker.claim_next(), Next::Drained);
    assert_eq!(slab.surplus().load(Ordering::SeqCst), 1);
}

/// Whoever does not flush may go on; the body still comes.
#[test]
fn the_end_of_a_response_reaches_a_worker_that_flushes() {
    let (slab, mut worker) = pair();
    let mut posting = post(&slab, b"h", &mut 0);
    assert_eq!(worker.claim_next(), Next::Request);
    assert!(worker.enter());
    worker.write(b"head").unwrap();
    worker.flush();
    assert!(!worker.is_unread());
    posting.end_response(&slab);
    assert_eq!(worker.write(&vec![b'x'; 2 * RESPONSE_RING]), Ok(()));
    assert!(worker.is_unread());
    posting.send_body(&slab, b"body").unwrap();
    let mut target = [0; 8];
    assert_eq!(worker.read(&mut target), Ok(4));
    worker.finish();
    assert_eq!((posting.receivable(&slab), posting.progress(&slab)), (Ok(4), Ok(Progress::Done)));
}
