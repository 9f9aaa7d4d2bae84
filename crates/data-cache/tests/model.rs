//! One process and random steps, beside a map that forgets nothing: the segment may have less than the map, and nothing else.

mod support;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use data_cache::entries::{Condition, Refused};
use support::{Random, amount, fetch, segment, store};

fn key(number: u64) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

#[test]
fn it_has_what_was_stored_or_nothing() {
    for (seed, size) in [(1, 1 << 20), (2, 4 << 20), (3, 16 << 20)] {
        let mut process = segment(size);
        let mut random = Random(seed);
        let mut model: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        let (mut found, mut asked, mut refused) = (0u64, 0u64, 0u64);
        for step in 1..amount(60_000, 2_000_000) {
            let number = random.below(400);
            let tag = random.below(8).to_string();
            match random.below(20) {
                0..8 => {
                    let is = fetch(&mut process, &key(number), 10);
                    let wanted = model.get(&number).map(|(seed, _)| *seed);
                    assert!(is.is_none() || is == wanted, "step {step}: {is:?} {wanted:?}");
                    asked += u64::from(wanted.is_some());
                    found += u64::from(is.is_some());
                }
                8..16 => {
                    // Now and then one that is larger than a region.
                    let words = if random.below(40) == 0 { size / 100 } else { random.below(300) };
                    match store(&mut process, &key(number), step, words, &[tag.as_bytes()], 0, Condition::Any) {
                        Ok(stored) => {
                            assert!(stored);
                            model.insert(number, (step, tag.parse().unwrap()));
                        }
                        Err(why) => {
                            assert_eq!(why, Refused::Full);
                            refused += 1;
                        }
                    }
                }
                16 => {
                    process.delete(&key(number), None, 10);
                    model.remove(&number);
                }
                17 if random.below(10) == 0 => {
                    assert!(process.invalidate(tag.as_bytes()));
                    let tag: u64 = tag.parse().unwrap();
                    model.retain(|_, (_, of)| *of != tag);
                }
                18 => {
                    let touches = process.touches(&key(number));
                    if random.below(2) == 0 {
                        process.delete(&key(number), None, 10);
                        model.remove(&number);
                        let late = store(&mut process, &key(number), step, 5, &[], 0, Condition::Untouched(touches));
                        assert_ne!(late, Ok(true), "a removal came between");
                    }
                }
                _ => process.end_request(),
            }
        }
        let (live, _) = process.view.used();
        assert!(live <= process.view.geometry.size);
        // In the smallest a value of the largest size pushes out an eighth of all.
        let least = if size > 4 << 20 { 95 } else { 60 };
        assert!(found * 100 > asked * least, "{found} of {asked} found in {size}, {refused} refused");
        assert!(refused * 20 < asked, "{refused} of {asked} refused");
    }
}

#[test]
fn conditions_hold() {
    let mut process = segment(1 << 20);
    assert_eq!(store(&mut process, b"a", 1, 4, &[], 0, Condition::Absent), Ok(true));
    assert_eq!(store(&mut process, b"a", 2, 4, &[], 0, Condition::Absent), Ok(false));
    let version = process.find(b"a", 1).unwrap().entry.version;
    assert_eq!(store(&mut process, b"a", 3, 4, &[], 0, Condition::Version(version)), Ok(true));
    assert_eq!(store(&mut process, b"a", 4, 4, &[], 0, Condition::Version(version)), Ok(false));
    assert_eq!(fetch(&mut process, b"a", 1), Some(3));
    let touches = process.touches(b"a");
    assert_eq!(store(&mut process, b"a", 5, 4, &[], 20, Condition::Untouched(touches)), Ok(true));
    assert_eq!(fetch(&mut process, b"a", 19), Some(5));
    assert_eq!(fetch(&mut process, b"a", 20), None, "it has ended");
    assert_eq!(
        store(&mut process, b"a", 6, 4, &[], 0, Condition::Absent),
        Ok(false),
        "it is good at the time that the store says"
    );
    process.flush();
    assert_eq!(fetch(&mut process, b"a", 1), None);
    let largest = process.view.geometry.largest();
    assert_eq!(store(&mut process, b"b", 7, largest / 8, &[], 0, Condition::Any), Err(Refused::TooLarge));
    assert_eq!(store(&mut process, b"b", 7, largest / 8 - 100, &[], 0, Condition::Any), Ok(true));
    assert_eq!(fetch(&mut process, b"b", 1), Some(7));
}

/// What is asked for stays when a hundred times as much is stored that nobody asks for.
#[test]
fn a_scan_pushes_out_what_a_scan_has_brought() {
    let mut process = segment(8 << 20);
    for number in 0..100 {
        store(&mut process, &key(number), number, 200, &[], 0, Condition::Any).unwrap();
    }
    for scan in 0..amount(40_000, 400_000) {
        let _ = store(&mut process, format!("scan {scan}").as_bytes(), scan, 200, &[], 0, Condition::Any);
        fetch(&mut process, &key(scan % 100), 1);
        process.end_request();
    }
    let kept = (0..100).filter(|number| fetch(&mut process, &key(*number), 1) == Some(*number)).count();
    assert_eq!(kept, 100);
}

/// Whoever stores and finds an empty slot takes from no other entry the note that it was used.
#[test]
fn entries_beside_an_empty_slot_stay_as_used() {
    let mut process = segment(8 << 20);
    for number in 0..100 {
        store(&mut process, &key(number), number, 20, &[], 0, Condition::Any).unwrap();
    }
    let slots: Vec<u64> = (0..100).map(|number| process.find(&key(number), 1).unwrap().slot).collect();
    process.end_request();
    for number in 100..4_100 {
        store(&mut process, &key(number), number, 20, &[], 0, Condition::Any).unwrap();
    }
    let view = process.view;
    assert_eq!(view.header().evicted.load(Ordering::Relaxed), 0, "all have room");
    let used = slots.iter().filter(|&&slot| view.hot(slot).0.load(Ordering::Relaxed) & view.hot(slot).1 != 0).count();
    assert_eq!(used, 100);
}

/// A reader that has something keeps it, whatever is stored meanwhile; what cannot be stored is refused.
#[test]
fn what_a_reader_has_stays() {
    let mut writer = segment(1 << 20);
    let mut reader = data_cache::process::Process::new(writer.view, None);
    store(&mut writer, b"held", 42, 500, &[], 0, Condition::Any).unwrap();
    let found = reader.find(b"held", 1).unwrap();
    let mut refused = 0;
    for number in 0..5_000 {
        refused += u64::from(store(&mut writer, &key(number), number, 500, &[], 0, Condition::Any).is_err());
        writer.end_request();
    }
    assert!(refused > 0, "memory that a reader may hold has a limit");
    let data = reader.view.reading(found.offset + u64::from(found.entry.value_at)).cast::<u64>();
    // SAFETY: the reader's request has not ended.
    assert!((0..500).all(|word| unsafe { data.add(word).read() } == 42));
    assert!(reader.holder().is_some());
    reader.end_request();
    assert_eq!(store(&mut writer, b"again", 1, 500, &[], 0, Condition::Any), Ok(true));
}
