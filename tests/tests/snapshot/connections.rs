//! Connections that stay open while their process is rewound: reprise_after_fork().

mod bridged;
mod gone;
mod mysql;
mod postgres;
mod redis;
mod refused;

use tests::Setup;
use tests::amount;
use tests::snapshot::{Lane, requests, snapshot};

/// One worker, whose connections stay. Its connections are `$db`, `$pdo`, `$pg` or `$redis`, as the test has them.
fn keeping(boot: &str, cases: &str) -> Setup {
    keeping_in(1, 4, boot, cases)
}

/// So many workers, of which `kept` keep their connections.
fn keeping_in(workers: usize, kept: usize, boot: &str, cases: &str) -> Setup {
    let setup = snapshot(boot, cases).application(&format!("workers = {workers}"));
    setup.application(&format!("kept_connections = {kept}")).ini("display_errors", "0")
}

/// How a visitor leaves a session, by name, and whether its connection stays.
type Left<'a> = &'a [(&'a str, Option<bool>)];

const STAYS: Option<bool> = Some(true);
const ENDS: Option<bool> = Some(false);
const EITHER: Option<bool> = None;

/// They wait, are killed, have one of a visitor's sessions wait for the other, or fill a table.
const ALONE: [&str; 11] = [
    "killed_later",
    "async",
    "async_ok",
    "async_update",
    "blocked",
    "psubscribe",
    "memory",
    "lock_tables",
    "read_lock",
    "file_broken",
    "file_thrown",
];

/// Four visitors do all of that to two sessions, in an order that is drawn, and look: none finds what another has left.
fn four_visitors(lane: &mut Lane, all: Left) {
    lane.expect(&["connection", "kernel", "crash"]);
    lane.repeat("look", 40);
    let state = |answer: &str| answer.split_once(' ').map(|(_, state)| state.to_owned());
    let first = state(&lane.text("look"));
    let (often, seldom): (Vec<_>, Vec<_>) =
        all.iter().filter(|(name, _)| !ALONE.contains(name)).partition(|(_, stays)| *stays == STAYS);
    let lane = &*lane;
    std::thread::scope(|scope| {
        for visitor in 0..4_usize {
            let (first, often, seldom) = (&first, &often, &seldom);
            scope.spawn(move || {
                let mut client = lane.client();
                let mut drawn = visitor + 1;
                for number in 0..requests(amount(160, 480)) / 8 {
                    drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let draw = drawn >> 33;
                    let ways = if draw % 50 == 0 { seldom } else { often };
                    let (name, _) = ways[draw / 50 % ways.len()];
                    client.get(&format!("/?do=leave&how={name}"));
                    let answer = client.get("/?do=look");
                    assert_eq!(
                        (answer.status, &state(&answer.text())),
                        (200, first),
                        "{name}, request {number}: {}",
                        lane.log()
                    );
                }
            });
        }
    });
}

/// After each way to leave a session the next visitor finds what the first one has found; `?do=look` says that after the number that
/// the server has given to the session, which tells whether the connection has stayed.
fn nothing_is_carried_over(lane: &mut Lane, all: Left) {
    lane.expect(&["connection", "kernel", "crash"]);
    let look = |lane: &Lane| {
        let answer = lane.text("look");
        let (number, state) = answer.split_once(' ').unwrap_or_else(|| panic!("{answer}"));
        (number.to_owned(), state.to_owned())
    };
    // Workers end when there is a snapshot with the regular expressions that these compile.
    lane.repeat("look", 40);
    let (mut number, first) = look(lane);
    assert_eq!(lane.info().text("connections"), lane.text("count"), "{}", lane.log());
    for (name, stays) in all {
        let left = lane.get(&format!("/?do=leave&how={name}"));
        let said = left.text();
        let (now, state) = look(lane);
        assert_eq!(state, first, "{name} ({said}) is carried over");
        assert!(
            stays.is_none_or(|stays| stays == (now == number)),
            "{name} ({}, {said}; {number}, now {now}): whether the connection stays, which should be {stays:?}\n{}",
            left.status,
            lane.log()
        );
        number = now;
    }
    // A connection that has stayed serves many.
    let again: Vec<_> = (0..20).map(|_| look(lane)).collect();
    assert!(again.iter().all(|one| *one == (number.clone(), first.clone())), "{again:?}");
}
