//! Results of pure functions: they take a quarter of the regions at most, and nothing else leaves for them.

mod support;

use data_cache::entries::{Condition, Refused};
use data_cache::process::Process;
use support::{amount, fetch, segment, store, store_memo};

const WORDS: u64 = 200;

fn kept(process: &mut Process, kind: &str, count: u64) -> u64 {
    let all =
        (0..count).filter(|number| fetch(process, format!("{kind} {number}").as_bytes(), 1) == Some(*number)).count();
    process.end_request();
    all as u64
}

fn flood(process: &mut Process, from: u64, count: u64) {
    for number in from..from + count {
        // There may be none without that something leaves.
        let _ = store_memo(process, format!("memo {number}").as_bytes(), number, WORDS);
        process.end_request();
    }
}

#[test]
fn nothing_of_the_application_leaves_for_them() {
    for size in [1 << 20, 16 << 20] {
        let mut process = segment(size);
        let fits = size / 2 / (WORDS * 8 + 200);
        for number in 0..fits {
            assert!(
                store(&mut process, format!("own {number}").as_bytes(), number, WORDS, &[], 0, Condition::Any).unwrap()
            );
            process.end_request();
        }
        // Some have left the places of their hash to others.
        let before = kept(&mut process, "own", fits);
        assert!(before > fits * 9 / 10, "{before} of {fits}");
        let count = amount(20_000, 200_000);
        flood(&mut process, 0, count);
        assert_eq!(kept(&mut process, "own", fits), before);
        let memos = kept(&mut process, "memo", count);
        let most = u64::from(process.view.geometry.memo_share()) * process.view.geometry.chunk / (WORDS * 8);
        assert!(memos > most / 3 && memos <= most, "{memos} of at most {most}");
        // The last ones are those that stayed.
        assert_eq!(fetch(&mut process, format!("memo {}", count - 1).as_bytes(), 1), Some(count - 1));
    }
}

#[test]
fn they_leave_for_what_the_application_stores() {
    let size = 16 << 20;
    let mut process = segment(size);
    flood(&mut process, 0, 20_000);
    assert!(kept(&mut process, "memo", 20_000) > 0);
    let mut alone = segment(size);
    let count = 2 * size / (WORDS * 8);
    for process in [&mut process, &mut alone] {
        for number in 0..count {
            assert!(store(process, format!("own {number}").as_bytes(), number, WORDS, &[], 0, Condition::Any).unwrap());
            process.end_request();
        }
    }
    let of_one_region = process.view.geometry.chunk / (WORDS * 8);
    assert!(kept(&mut process, "memo", 20_000) <= of_one_region, "but for the region that is open");
    let (with, without) = (kept(&mut process, "own", count), kept(&mut alone, "own", count));
    // But for the region that was open.
    assert!(with + 2 * of_one_region >= without, "{with} of {without}");
    // There is no room left for results.
    flood(&mut process, 30_000, 2_000);
    assert_eq!(kept(&mut process, "own", count), with);
}

#[test]
fn one_that_is_larger_than_a_region_is_refused() {
    let mut process = segment(16 << 20);
    let words = process.view.geometry.chunk / 8;
    assert!(matches!(store_memo(&mut process, b"large", 1, words), Err(Refused::Full)));
    assert!(store(&mut process, b"large", 1, words, &[], 0, Condition::Any).unwrap());
}
