//! Processes that die at any point leave no lock, no lease and no wrong value.
#![cfg(debug_assertions)]

mod support;

use data_cache::entries::Condition;
use data_cache::leases::Answer;
use data_cache::points::die_at;
use data_cache::process::Process;
use support::{Random, amount, fetch, fork, kill, reap, segment, store};

/// What a worker does, over and over. It allocates nothing.
fn work(process: &mut Process, seed: u64, steps: u64) {
    let mut random = Random(seed | 1);
    for step in 0..steps {
        let mut key = *b"key  ";
        key[4] = b'a' + random.below(26) as u8;
        match random.below(10) {
            0..4 => {
                fetch(process, &key, 1);
            }
            4..8 => {
                let words = if random.below(30) == 0 { 6000 } else { random.below(2000) };
                let terms = data_cache::entries::Terms {
                    key: &key,
                    tags: &[],
                    flush: process.flushes(),
                    now: 1,
                    soft: 0,
                    hard: 0,
                    cost: 0,
                    kind: 0,
                    is_memo: random.below(3) == 0,
                };
                if let Ok(offset) = process.reserve(&terms, words * 8) {
                    let at = u64::from(process.view.entry(offset).value_at);
                    // SAFETY: what was reserved.
                    unsafe {
                        let zval = process.view.writing(offset).cast::<u64>();
                        zval.write(step);
                        zval.add(1).write(words);
                        let data = process.view.writing(offset + at).cast::<u64>();
                        (0..words as usize).for_each(|number| data.add(number).write(step));
                    }
                    process.publish(offset, Condition::Any, 1);
                }
            }
            8 => {
                process.delete(&key, None, 1);
            }
            _ => {
                let hash = process.view.hash(&key);
                if let Answer::Mine(number) = process.lease(hash, 1, 60_000) {
                    if random.below(2) == 0 {
                        process.release(number, hash);
                    }
                }
            }
        }
        if random.below(4) == 0 {
            process.end_request();
        }
    }
}

/// After a death and a sweep everything is there for the next: the lock, every lease, every place.
fn check(process: &mut Process, dead: i32) {
    process.sweep(Some(dead as u32));
    for letter in b'a'..=b'z' {
        let key = [b'k', b'e', b'y', b' ', letter];
        fetch(process, &key, 1);
        let hash = process.view.hash(&key);
        match process.lease(hash, 1, 60_000) {
            Answer::Mine(number) => assert!(process.release(number, hash)),
            answer => panic!("the lease of a dead process is still there: {answer:?}"),
        }
    }
    process.end_request();
    assert_eq!(process.holder(), None);
}

#[test]
fn a_death_at_each_point_leaves_nothing() {
    let mut process = segment(1 << 20);
    let mut deaths = 0;
    for point in 1..amount(600, 20_000) {
        let pid = fork(|| {
            process.begin(None);
            die_at(point as i64);
            work(&mut process, point, 3_000);
            0
        });
        deaths += u64::from(reap(pid) == 9);
        check(&mut process, pid);
    }
    assert!(deaths > 500, "{deaths}");
    store(&mut process, b"after", 7, 100, &[], 0, Condition::Any).unwrap();
    assert_eq!(fetch(&mut process, b"after", 1), Some(7));
}

/// Three workers at once, one of which is killed from outside at a random time, and nobody sweeps but those who wait.
#[test]
fn killed_at_random_beside_others() {
    let mut process = segment(1 << 20);
    let mut random = Random(77);
    for round in 0..amount(30, 3_000) {
        let workers: Vec<i32> = (0..3)
            .map(|worker| {
                fork(|| {
                    process.begin(None);
                    work(&mut process, round * 8 + worker, if worker == 0 { u64::MAX } else { 4_000 });
                    0
                })
            })
            .collect();
        std::thread::sleep(std::time::Duration::from_micros(500 + random.below(4_000)));
        kill(workers[0]);
        let statuses: Vec<i32> = workers.iter().map(|pid| reap(*pid)).collect();
        assert_eq!(
            statuses,
            [9, 0, 0],
            "round {round}: those that were not killed come to their end, with right values"
        );
        workers.iter().for_each(|pid| {
            process.sweep(Some(*pid as u32));
        });
        check(&mut process, workers[0]);
    }
}

/// Who dies between two regions leaves one that takes entries: the one that is named. Another would be given to somebody else while
/// entries lie in it.
#[test]
fn a_death_between_two_regions_leaves_one_open() {
    for point in 1..60 {
        let mut process = segment(1 << 20);
        let words = process.view.geometry.chunk / 8 - 200;
        let pid = fork(|| {
            process.begin(None);
            let _ = store(&mut process, b"first", 1, words, &[], 0, Condition::Any);
            die_at(point as i64);
            let _ = store(&mut process, b"second", 2, words, &[], 0, Condition::Any);
            0
        });
        reap(pid);
        process.sweep(Some(pid as u32));
        store(&mut process, b"small", 3, 1, &[], 0, Condition::Any).unwrap();
        for key in [&b"first"[..], b"second", b"small"] {
            process.delete(key, None, 1);
        }
        process.end_request();
        store(&mut process, b"kept", 4, 50, &[], 0, Condition::Any).unwrap();
        for round in 0..60 {
            let key = [b'x', round];
            store(&mut process, &key, u64::from(round), words / 2, &[], 0, Condition::Any).unwrap();
            let _ = store(&mut process, b"large", 9, words * 2, &[], 0, Condition::Any);
            assert!(fetch(&mut process, b"kept", 1).is_none_or(|seed| seed == 4), "point {point}");
            process.end_request();
        }
        let open = (0..process.view.geometry.regions).filter(|&region| {
            process.view.region(region).state.load(std::sync::atomic::Ordering::Relaxed)
                == data_cache::layout::State::Open as u32
        });
        assert_eq!(open.count(), 1, "point {point}");
    }
}
