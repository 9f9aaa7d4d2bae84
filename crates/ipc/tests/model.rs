//! The model checker runs the code that ships: claims, rings and wake-ups, over every interleaving.
//! `RUSTFLAGS="--cfg loom" cargo test -p ipc --release --test model`
#![cfg(loom)]

use ipc::atomics::{AtomicU32, AtomicU64, Ordering, fence};
use ipc::bell::{self, Futex, Marks};
use ipc::owner::{Owner, State, step};
use ipc::queue::{self, Queue};
use ipc::ring::{self, Memory};
use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

struct Lane {
    head: AtomicU64,
    tail: AtomicU64,
    cells: Vec<AtomicU64>,
    owners: Vec<AtomicU64>,
}

impl Lane {
    fn new(exchanges: usize, cells: usize) -> Lane {
        Lane {
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            cells: (0..cells).map(|_| AtomicU64::new(0)).collect(),
            owners: (0..exchanges).map(|_| AtomicU64::new(0)).collect(),
        }
    }
    fn queue(&self) -> Queue<'_> {
        Queue { head: &self.head, tail: &self.tail, cells: &self.cells }
    }
    fn post(&self, exchange: u32, sequence: u32, tail: &mut u64) {
        self.owners[exchange as usize].store(Owner::pack(sequence, 0, State::Queued), Ordering::Release);
        self.queue().push(tail, queue::entry(exchange, sequence)).unwrap();
    }
    fn claim(&self, slot: u16) -> Option<(u32, u32)> {
        self.queue().claim(slot, |exchange| self.owners.get(exchange as usize))
    }
    fn owner(&self, exchange: usize) -> Owner {
        Owner::unpack(self.owners[exchange].load(Ordering::SeqCst)).unwrap()
    }
}

/// Two requests, two workers: each request is claimed once, and what was posted is what is claimed.
#[test]
fn a_request_is_claimed_once() {
    loom::model(|| {
        let lane = Arc::new(Lane::new(2, 2));
        let workers: Vec<_> = [1u16, 2]
            .into_iter()
            .map(|slot| {
                let lane = lane.clone();
                thread::spawn(move || (0..2).filter_map(|_| lane.claim(slot)).collect::<Vec<_>>())
            })
            .collect();
        let mut tail = 0;
        lane.post(0, 7, &mut tail);
        lane.post(1, 9, &mut tail);
        let mut got: Vec<_> = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
        while let Some(rest) = lane.claim(3) {
            got.push(rest);
        }
        got.sort_unstable();
        assert_eq!(got, [(0, 7), (1, 9)]);
    });
}

/// A worker is killed between taking an entry and claiming its exchange; another is merely slow there. The front queues
/// the lost request again, and it is claimed exactly once.
#[test]
fn a_taken_entry_whose_taker_died_is_claimed_again_once() {
    loom::model(|| {
        let lane = Arc::new(Lane::new(1, 4));
        let mut tail = 0;
        lane.post(0, 5, &mut tail);
        let slow = {
            let lane = lane.clone();
            // `pop` and the claim's compare-and-swap apart, as a slow or a dying worker does them.
            thread::spawn(move || {
                let (exchange, sequence) = queue::unpack(lane.queue().pop()?);
                let word = &lane.owners[exchange as usize];
                step(word, Owner::pack(sequence, 0, State::Queued), Owner::pack(sequence, 1, State::Claimed))
                    .then_some((exchange, sequence))
            })
        };
        // The front notices an entry that was taken while its exchange is still queued.
        if lane.head.load(Ordering::SeqCst) > 0 && lane.owner(0).state == State::Queued {
            lane.queue().push(&mut tail, queue::entry(0, 5)).unwrap();
        }
        let second = lane.claim(2);
        let first = slow.join().unwrap();
        let third = lane.claim(3);
        assert_eq!([first, second, third].iter().flatten().count(), 1);
    });
}

/// A withdrawal and a claim: one of them wins.
#[test]
fn a_request_is_withdrawn_or_claimed() {
    loom::model(|| {
        let lane = Arc::new(Lane::new(1, 2));
        let mut tail = 0;
        lane.post(0, 1, &mut tail);
        let worker = {
            let lane = lane.clone();
            thread::spawn(move || lane.claim(1).is_some())
        };
        let withdrawn = step(&lane.owners[0], Owner::pack(1, 0, State::Queued), Owner::pack(1, 0, State::Free));
        assert!(withdrawn ^ worker.join().unwrap());
    });
}

struct Cells(Vec<UnsafeCell<u8>>);
impl Memory for Cells {
    fn store(&self, at: usize, source: &[u8]) {
        for (cell, byte) in self.0[at..].iter().zip(source) {
            cell.with_mut(|place| unsafe { *place = *byte });
        }
    }
    fn load(&self, at: usize, target: &mut [u8]) {
        for (cell, byte) in self.0[at..].iter().zip(target) {
            *byte = cell.with(|place| unsafe { *place });
        }
    }
    fn size(&self) -> usize {
        self.0.len()
    }
}
// The ring's positions are what makes this sound; loom reports any access that they do not order.
unsafe impl Sync for Cells {}
unsafe impl Send for Cells {}

/// Bytes come out of a ring as they went in, and no byte is read and written at once.
#[test]
fn a_ring_keeps_its_bytes() {
    loom::model(|| {
        let shared =
            Arc::new((Cells((0..2).map(|_| UnsafeCell::new(0)).collect()), AtomicU64::new(0), AtomicU64::new(0)));
        let writer = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (memory, head, tail) = &*shared;
                let mut at = 0u64;
                while at < 3 {
                    let room = ring::writable(at, head, 2).unwrap();
                    if room == 0 {
                        thread::yield_now();
                        continue;
                    }
                    ring::put(memory, at, &[at as u8 + 1]);
                    at += 1;
                    tail.store(at, Ordering::Release);
                }
            })
        };
        let (memory, head, tail) = &*shared;
        let (mut at, mut got) = (0u64, Vec::new());
        while at < 3 {
            let available = ring::readable(at, tail, 2).unwrap();
            if available == 0 {
                thread::yield_now();
                continue;
            }
            let mut bytes = vec![0; available];
            ring::get(memory, at, &mut bytes);
            at += available as u64;
            head.store(at, Ordering::Release);
            got.extend(bytes);
        }
        writer.join().unwrap();
        assert_eq!(got, [1, 2, 3]);
    });
}

/// The futex as the kernel promises it: compare and sleep are one step. It never times out here, so that loom reports a
/// lost wake-up as a deadlock.
struct Sleeping(Mutex<()>, Condvar);
impl Futex for Sleeping {
    fn wait(&self, word: &AtomicU32, expected: u32, _: u32) {
        let mut guard = self.0.lock().unwrap();
        while word.load(Ordering::SeqCst) == expected {
            guard = self.1.wait(guard).unwrap();
        }
    }
    fn wake(&self, _: &AtomicU32) {
        let _guard = self.0.lock().unwrap();
        self.1.notify_all();
    }
}

/// A worker that waits for bytes always sees them come, though the front rings only for an announced sleeper.
#[test]
fn no_wake_up_of_a_blocked_worker_is_lost() {
    loom::model(|| {
        let futex = Arc::new(Sleeping(Mutex::new(()), Condvar::new()));
        let words = Arc::new((AtomicU32::new(0), AtomicU32::new(0), AtomicU64::new(0)));
        let front = {
            let (futex, words) = (futex.clone(), words.clone());
            thread::spawn(move || {
                words.2.store(1, Ordering::Release);
                bell::ring(&*futex, &words.0, &words.1);
            })
        };
        let (bell_word, waiting, tail) = &*words;
        while !bell::wait_until(&*futex, bell_word, waiting, 0, || tail.load(Ordering::Acquire) == 1) {}
        front.join().unwrap();
    });
}

/// A worker that goes to sleep on an empty queue is woken for the request that is queued meanwhile.
#[test]
fn no_wake_up_of_an_idle_worker_is_lost() {
    loom::model(|| {
        let futex = Arc::new(Sleeping(Mutex::new(()), Condvar::new()));
        let lane = Arc::new(Lane::new(1, 2));
        let idle = Arc::new((AtomicU32::new(0), vec![AtomicU64::new(0)]));
        let front = {
            let (futex, lane, idle) = (futex.clone(), lane.clone(), idle.clone());
            thread::spawn(move || {
                lane.post(0, 1, &mut 0);
                fence(Ordering::SeqCst);
                if bell::take_lowest(&idle.1).is_some() {
                    idle.0.fetch_add(1, Ordering::Release);
                    futex.wake(&idle.0);
                }
            })
        };
        while lane.claim(1).is_none() {
            let seen = idle.0.load(Ordering::Acquire);
            bell::set_bit(&idle.1, 0);
            fence(Ordering::SeqCst);
            if lane.queue().is_empty() {
                futex.wait(&idle.0, seen, 0);
            }
            bell::clear_bit(&idle.1, 0);
        }
        front.join().unwrap();
    });
}

/// Of two idle workers one is dismissed while a request is queued: if the wake-up was for that one, it goes on to the other.
#[test]
fn no_wake_up_of_a_dismissed_worker_is_lost() {
    loom::model(|| {
        let futex = Arc::new(Sleeping(Mutex::new(()), Condvar::new()));
        let lane = Arc::new(Lane::new(1, 2));
        let bells = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let idle = Arc::new(vec![AtomicU64::new(0)]);
        let wake_one = |futex: &Sleeping, bells: &[AtomicU32; 2], idle: &[AtomicU64]| {
            if let Some(index) = bell::take_lowest(idle) {
                bells[index].fetch_add(1, Ordering::Release);
                futex.wake(&bells[index]);
            }
        };
        bell::set_bit(&idle, 0);
        let dismissed = {
            let (futex, lane, bells, idle) = (futex.clone(), lane.clone(), bells.clone(), idle.clone());
            thread::spawn(move || {
                bell::clear_bit(&idle, 0);
                fence(Ordering::SeqCst);
                if !lane.queue().is_empty() {
                    wake_one(&futex, &bells, &idle);
                }
            })
        };
        let front = {
            let (futex, lane, bells, idle) = (futex.clone(), lane.clone(), bells.clone(), idle.clone());
            thread::spawn(move || {
                lane.post(0, 1, &mut 0);
                fence(Ordering::SeqCst);
                wake_one(&futex, &bells, &idle);
            })
        };
        while lane.claim(1).is_none() {
            let seen = bells[1].load(Ordering::Acquire);
            bell::set_bit(&idle, 1);
            fence(Ordering::SeqCst);
            if lane.queue().is_empty() {
                futex.wait(&bells[1], seen, 0);
            }
            bell::clear_bit(&idle, 1);
        }
        front.join().unwrap();
        dismissed.join().unwrap();
    });
}

/// Two workers finish two exchanges while the front goes to sleep. The front takes one bit at a time, as if there were too many
/// for one turn, and gets both.
fn news_arrives(indices: [usize; 2], words: usize) {
    // Three threads with as many steps: without a bound it ends on no day.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = model.preemption_bound.or(Some(5));
    model.check(move || {
        let futex = Arc::new(Sleeping(Mutex::new(()), Condvar::new()));
        let door = Arc::new((AtomicU32::new(0), AtomicU32::new(0), AtomicU64::new(0)));
        let ready = Arc::new((0..words).map(|_| AtomicU64::new(0)).collect::<Vec<_>>());
        let workers = indices.map(|index| {
            let (futex, door, ready) = (futex.clone(), door.clone(), ready.clone());
            thread::spawn(move || {
                let (eventfd, sleeping, summary) = &*door;
                bell::knock(&Marks { summary, words: &ready }, index, sleeping, || {
                    eventfd.fetch_add(1, Ordering::Release);
                    futex.wake(eventfd);
                });
            })
        });
        let (eventfd, sleeping, summary) = &*door;
        let marks = Marks { summary, words: &ready };
        let mut got = Vec::new();
        while got.len() < 2 {
            let seen = eventfd.load(Ordering::Acquire);
            if bell::may_sleep(&marks, sleeping) {
                futex.wait(eventfd, seen, 0);
            }
            bell::awake(sleeping);
            marks.take(1, |index| got.push(index));
        }
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        got.sort_unstable();
        assert_eq!(got, indices);
    });
}

#[test]
fn no_news_of_two_words_is_lost() {
    news_arrives([3, 64], 2);
}

#[test]
fn no_news_of_one_word_is_lost() {
    news_arrives([3, 4], 1);
}
