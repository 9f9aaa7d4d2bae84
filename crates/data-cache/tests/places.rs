//! Places and leases of processes that died and that nobody has reaped or swept.

mod support;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use data_cache::alive::Who;
use data_cache::entries::Condition;
use data_cache::leases::Answer;
use data_cache::process::Process;
use support::{amount, fork, kill, reap, segment, store};

/// Takes a place, gets a value, and ends as a killed process does.
fn die_with_a_value(process: &mut Process) -> i32 {
    reap(fork(|| {
        process.begin(None);
        process.find(b"value", 1).map_or(1, |_| 0)
    }))
}

/// Many processes look for a place at once, and all places are those of the dead: each gets one that is its own, and what it reads is
/// held.
#[test]
fn each_place_of_the_dead_goes_to_one() {
    let mut process = segment(1 << 20);
    store(&mut process, b"value", 7, 100, &[], 0, Condition::Any).unwrap();
    process.leave();
    process.begin(None);
    for round in 0..amount(40, 400) {
        let places = process.view.geometry.reader_count;
        let mut filled = 0;
        while (0..places).any(|number| process.view.reader(number).who.load(Ordering::Relaxed) == 0) {
            assert_eq!(die_with_a_value(&mut process), 0);
            filled += 1;
            assert!(filled <= places);
        }
        let begins = Instant::now() + Duration::from_millis(4);
        let workers: Vec<i32> = (0..12)
            .map(|_| {
                fork(|| {
                    process.begin(None);
                    while Instant::now() < begins {}
                    for _ in 0..300 {
                        if process.find(b"value", 1).is_none() {
                            return 2;
                        }
                        let Some(reader) = process.reader() else { return 3 };
                        std::thread::yield_now();
                        if Some(Who(reader.who.load(Ordering::SeqCst))) != Who::me() {
                            return 4;
                        }
                        if reader.epoch.load(Ordering::SeqCst) == 0 {
                            return 5;
                        }
                    }
                    0
                })
            })
            .collect();
        let codes: Vec<i32> = workers.into_iter().map(|pid| reap(pid) >> 8).collect();
        assert_eq!(codes, [0; 12], "round {round}");
        process.sweep(None);
        process.leave();
        process.begin(None);
    }
}

#[test]
fn a_lease_of_the_dead_is_free_for_who_asks() {
    let mut process = segment(1 << 20);
    let hash = process.view.hash(b"lock");
    let child = fork(|| {
        process.begin(None);
        i32::from(!matches!(process.lease(hash, 1, 1 << 40), Answer::Mine(_)))
    });
    assert_eq!(reap(child), 0);
    let Answer::Mine(number) = process.lease(hash, 1, 1000) else { panic!("it is still the dead's") };
    assert_eq!(process.lease(hash, 1, 60_000), Answer::Own(number));
}

/// A child of a request's process is swept with it.
#[test]
fn children_are_swept_with_their_parent() {
    let mut process = segment(1 << 20);
    store(&mut process, b"value", 7, 100, &[], 0, Condition::Any).unwrap();
    let parent = fork(|| {
        process.begin(None);
        if process.find(b"value", 1).is_none() {
            return 1;
        }
        let place = process.before_fork();
        let child = fork(|| i32::from(!process.in_child(place)));
        process.after_fork(place.unwrap_or(0), child as u32);
        reap(child)
    });
    assert_eq!(reap(parent), 0);
    assert_eq!(process.sweep(Some(parent as u32)), 2);
}

/// Who finds no memory looks for the dead among all that hold some, but not each time: others wait for the lock meanwhile.
#[test]
fn a_full_segment_is_not_searched_for_the_dead_at_each_store() {
    let mut process = segment(1 << 20);
    store(&mut process, b"value", 7, 100, &[], 0, Condition::Any).unwrap();
    process.leave();
    let holders: Vec<i32> = (0..60)
        .map(|_| {
            fork(|| {
                process.begin(None);
                let found = process.find(b"value", 1).is_some();
                std::thread::sleep(Duration::from_secs(30));
                i32::from(!found)
            })
        })
        .collect();
    process.begin(None);
    while process.view.header().high.load(Ordering::Relaxed) < 60
        || (0..60).any(|number| process.view.reader(number).epoch.load(Ordering::Relaxed) == 0)
    {
        std::thread::yield_now();
    }
    let mut refused = 0;
    for round in 0..2_000u32 {
        refused += u32::from(store(&mut process, &round.to_ne_bytes(), 1, 1_000, &[], 0, Condition::Any).is_err());
    }
    let looked = processor_time();
    for round in 0..500u32 {
        assert!(store(&mut process, &round.to_ne_bytes(), 1, 1_000, &[], 0, Condition::Any).is_err());
    }
    let took = processor_time() - looked;
    holders.iter().for_each(|pid| kill(*pid));
    for pid in holders {
        reap(pid);
    }
    assert!(refused > 1_000, "{refused}");
    assert!(took < Duration::from_millis(250), "500 refused stores took {took:?}");
}

/// Of this thread.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}
