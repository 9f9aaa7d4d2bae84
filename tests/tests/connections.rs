//! Connections that stay open while their process is rewound: reprise_after_fork().

mod gone;
mod mysql;
mod postgres;
mod redis;
mod refused;

use tests::Setup;
use tests::snapshot::{Lane, snapshot};

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
