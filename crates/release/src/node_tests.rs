//! Each case of what a node does about records, with a clock of the test's own.

use super::*;
use crate::record::tests::{record, release};

const UNCERTAIN: Duration = Duration::from_secs(30);

struct Case {
    node: Node,
    now: Instant,
}

fn seen(prepare: Option<Record>, serve: Option<Record>) -> Look {
    Ok(Seen { prepare, serve })
}

fn quiet(actions: Vec<Action>) -> Vec<Action> {
    actions.into_iter().filter(|action| !matches!(action, Action::Log(..))).collect()
}

impl Case {
    /// A node that serves release 1 by record 1.
    fn new() -> Case {
        let now = Instant::now();
        Case { node: Node::new("one", Some(release(1)), 1, UNCERTAIN, now), now }
    }

    fn look(&mut self, look: &Look) -> Vec<Action> {
        quiet(self.node.look(look, self.now))
    }

    fn take(&mut self, event: Event) -> Vec<Action> {
        quiet(self.node.take(event, self.now))
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    fn make_ready(&mut self) -> Look {
        let pool =
            seen(Some(Record { hold_ms: 120_000, ..record(Kind::Prepare, 2, 2) }), Some(record(Kind::Serve, 1, 1)));
        assert_eq!(self.look(&pool), [Action::Fetch(release(2))]);
        assert_eq!(self.take(Event::Fetched(Ok(()))), [Action::Boot(release(2))]);
        assert!(self.take(Event::Booted).is_empty());
        assert_eq!((self.node.state().state.as_str(), self.node.state().number), ("ready", 2));
        pool
    }
}

#[test]
fn a_release_is_prepared_and_served_when_the_record_says_so() {
    let mut case = Case::new();
    let pool = case.make_ready();
    assert!(case.look(&pool).is_empty(), "it waits");
    let served = seen(Some(record(Kind::Prepare, 2, 2)), Some(record(Kind::Serve, 2, 2)));
    assert_eq!(case.look(&served), [Action::Switch]);
    assert!(case.look(&served).is_empty(), "once");
    assert_eq!(case.take(Event::Switched), [Action::Unready(None), Action::Keep(release(2), 2)]);
    assert!(case.look(&served).is_empty());
    assert_eq!(case.node.state().serving, Some(release(2)));
}

#[test]
fn what_is_withdrawn_or_waited_for_too_long_is_given_up() {
    let mut case = Case::new();
    case.make_ready().unwrap();
    let withdrawn = seen(Some(record(Kind::Withdraw, 2, 2)), Some(record(Kind::Serve, 1, 1)));
    assert_eq!(case.look(&withdrawn), [Action::Abandon]);
    assert!(case.look(&withdrawn).is_empty());
    let mut case = Case::new();
    let pool = case.make_ready();
    case.pass(121);
    assert_eq!(case.look(&pool), [Action::Abandon]);
    assert_eq!(case.node.state().state, "failed");
    assert!(case.look(&pool).is_empty(), "it is not prepared again");
}

#[test]
fn a_node_that_cannot_be_ready_says_why_and_goes_on() {
    let mut case = Case::new();
    let pool = seen(Some(record(Kind::Prepare, 2, 2)), Some(record(Kind::Serve, 1, 1)));
    case.look(&pool);
    assert!(case.take(Event::Fetched(Err(Fault::refused("it is cut off")))).is_empty());
    assert_eq!(case.node.state().why.as_deref(), Some("it is cut off"));
    case.pass(100);
    assert!(case.look(&pool).is_empty(), "a preparation is tried once");
    assert_eq!(case.node.state().serving, Some(release(1)));
    let next = seen(Some(record(Kind::Prepare, 3, 3)), Some(record(Kind::Serve, 1, 1)));
    assert_eq!(case.look(&next), [Action::Fetch(release(3))]);
    case.take(Event::Fetched(Ok(())));
    assert!(case.take(Event::BootFailed("a fatal error".to_owned())).is_empty());
    assert_eq!(case.node.state().why.as_deref(), Some("a fatal error"));
}

#[test]
fn a_late_node_takes_what_is_served_and_tries_again() {
    let mut case = Case::new();
    let pool = seen(None, Some(record(Kind::Serve, 5, 4)));
    assert_eq!(case.look(&pool), [Action::Fetch(release(4))]);
    case.take(Event::Fetched(Err(Fault::unreachable("no connection"))));
    assert!(case.look(&pool).is_empty());
    case.pass(3);
    assert_eq!(case.look(&pool), [Action::Fetch(release(4))]);
    case.take(Event::Fetched(Ok(())));
    assert_eq!(case.take(Event::Booted), [Action::Switch]);
    assert_eq!(case.take(Event::Switched), [Action::Unready(None), Action::Keep(release(4), 5)]);
}

#[test]
fn what_is_served_while_it_is_prepared_is_switched_to_at_once() {
    let mut case = Case::new();
    case.look(&seen(Some(record(Kind::Prepare, 2, 2)), None));
    let served = seen(Some(record(Kind::Prepare, 2, 2)), Some(record(Kind::Serve, 2, 2)));
    assert!(case.look(&served).is_empty());
    case.take(Event::Fetched(Ok(())));
    assert_eq!(case.take(Event::Booted), [Action::Switch]);
}

#[test]
fn replays_are_not_followed() {
    let mut case = Case::new();
    case.node.number = 9;
    assert!(case.look(&seen(Some(record(Kind::Prepare, 8, 2)), Some(record(Kind::Serve, 8, 2)))).is_empty());
    assert!(case.look(&seen(None, Some(record(Kind::Serve, 9, 2)))).is_empty(), "another with the same number");
    assert!(case.look(&seen(None, Some(record(Kind::Prepare, 10, 2)))).is_empty(), "in the place of the other record");
    assert_eq!(case.node.state().serving, Some(release(1)));
}

#[test]
fn a_rollback_is_a_new_record_with_an_old_release() {
    let mut case = Case::new();
    case.look(&seen(Some(record(Kind::Prepare, 2, 2)), None));
    case.take(Event::Fetched(Ok(())));
    case.take(Event::Booted);
    case.look(&seen(None, Some(record(Kind::Serve, 2, 2))));
    case.take(Event::Switched);
    assert_eq!(
        case.look(&seen(Some(record(Kind::Prepare, 3, 1)), Some(record(Kind::Serve, 2, 2)))),
        [Action::Fetch(release(1))]
    );
}

#[test]
fn what_it_serves_already_needs_no_generation() {
    let mut case = Case::new();
    assert!(case.look(&seen(Some(record(Kind::Prepare, 2, 1)), Some(record(Kind::Serve, 1, 1)))).is_empty());
    assert_eq!(case.node.state().state, "ready");
    let served = seen(Some(record(Kind::Prepare, 2, 1)), Some(record(Kind::Serve, 2, 1)));
    assert_eq!(case.look(&served), [Action::Keep(release(1), 2)]);
}

#[test]
fn others_preparations_are_not_its_own() {
    let mut case = Case::new();
    let record = Record { members: vec!["two".to_owned()], ..record(Kind::Prepare, 2, 2) };
    assert!(case.look(&seen(Some(record), None)).is_empty());
}

#[test]
fn a_node_that_is_ready_and_hears_nothing_is_unready_but_not_for_ever() {
    let mut case = Case::new();
    case.make_ready().unwrap();
    let gone = Err("no connection".to_owned());
    case.pass(2);
    assert!(case.look(&gone).is_empty(), "a moment is no doubt");
    case.pass(2);
    assert!(matches!(&case.look(&gone)[..], [Action::Unready(Some(_))]));
    assert!(!case.node.state().is_ready);
    case.pass(29);
    assert!(case.look(&gone).is_empty());
    case.pass(1);
    assert_eq!(case.look(&gone), [Action::Unready(None)]);
    assert!(case.node.state().is_ready);
    case.pass(10);
    assert!(case.look(&gone).is_empty(), "once");
    // It is there again, and says that the others have switched.
    assert_eq!(case.look(&seen(None, Some(record(Kind::Serve, 2, 2)))), [Action::Switch]);
}

#[test]
fn a_pool_that_is_gone_concerns_nobody_who_waits_for_nothing() {
    let mut case = Case::new();
    for _ in 0..100 {
        case.pass(10);
        assert!(case.look(&Err("no connection".to_owned())).is_empty());
    }
    assert!(case.node.state().is_ready);
}

#[test]
fn a_pool_that_is_back_makes_a_node_ready_again() {
    let mut case = Case::new();
    let pool = case.make_ready();
    case.pass(5);
    assert!(matches!(&case.look(&Err("no".to_owned()))[..], [Action::Unready(Some(_))]));
    case.pass(1);
    assert_eq!(case.look(&pool), [Action::Unready(None)]);
}

#[test]
fn a_newer_preparation_takes_the_place_of_an_older_one() {
    let mut case = Case::new();
    case.make_ready().unwrap();
    let next = seen(Some(record(Kind::Prepare, 3, 3)), Some(record(Kind::Serve, 1, 1)));
    assert_eq!(case.look(&next), [Action::Abandon, Action::Fetch(release(3))]);
}

#[test]
fn what_is_served_and_does_not_boot_is_mended_by_its_successor() {
    let mut case = Case { node: Node::new("one", None, 0, UNCERTAIN, Instant::now()), now: Instant::now() };
    let broken = record(Kind::Serve, 5, 4);
    assert_eq!(case.look(&seen(None, Some(broken.clone()))), [Action::Fetch(release(4))]);
    case.take(Event::Fetched(Ok(())));
    case.take(Event::BootFailed("a fatal error".to_owned()));
    let pool = seen(Some(record(Kind::Prepare, 6, 6)), Some(broken.clone()));
    assert_eq!(case.look(&pool), [Action::Fetch(release(6))]);
    case.pass(100);
    assert!(case.look(&pool).is_empty(), "the broken one is not tried again meanwhile");
    assert_eq!(case.take(Event::Fetched(Ok(()))), [Action::Boot(release(6))]);
    case.take(Event::Booted);
    assert_eq!((case.node.state().state.as_str(), case.node.state().number), ("ready", 6));
    assert_eq!(case.look(&seen(Some(record(Kind::Prepare, 6, 6)), Some(record(Kind::Serve, 6, 6)))), [Action::Switch]);
    // One that is withdrawn leads back to what is served.
    let mut case = Case { node: Node::new("one", None, 0, UNCERTAIN, Instant::now()), now: Instant::now() };
    case.look(&seen(None, Some(broken.clone())));
    case.take(Event::Fetched(Err(Fault::refused("is cut off"))));
    case.look(&pool);
    let withdrawn = seen(Some(record(Kind::Withdraw, 6, 6)), Some(broken));
    assert_eq!(case.look(&withdrawn), [Action::Abandon]);
    assert_eq!(case.look(&withdrawn), [Action::Fetch(release(4))]);
}
